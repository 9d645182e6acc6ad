#ifndef STAGECOACH_SCHEDULE_VERIFIER_LISTS_H_
#define STAGECOACH_SCHEDULE_VERIFIER_LISTS_H_

#include <cstdint>
#include <vector>

#include "schedule/verifier_view.h"

// What can be proved by reading each list once. Each check may rely on the ones
// above it, and on CheckShape, having found nothing.
namespace stagecoach::schedule::verifier {

// Every action on the worker that holds its stage; every transfer over a wire.
void CheckPlacement(const View& view, Findings* findings);

// Every microbatch through every stage exactly once, every transfer once, each
// with its await. Returns, by View::key, the bits of the actions that are
// there.
std::vector<uint16_t> CheckComplete(const View& view,
                                    const VerifyOptions& options,
                                    Findings* findings);

// On each worker nothing runs before what it needs, and on each edge AWAIT and
// SEND alternate, each pair after its compute action.
void CheckOrder(const View& view, Findings* findings);

// REDUCE_TIED where it is demanded, once, after the gradients it reduces.
void CheckTied(const View& view, const VerifyOptions& options,
               Findings* findings);

// By edge, View::key of the receiving stage and microbatch, in RECV order.
using ReceiveOrder = std::vector<std::vector<size_t>>;

// Sends and receives of each edge match in order.
ReceiveOrder CheckEdgeOrder(const View& view, Findings* findings);

}  // namespace stagecoach::schedule::verifier

#endif  // STAGECOACH_SCHEDULE_VERIFIER_LISTS_H_
