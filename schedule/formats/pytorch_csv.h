#ifndef STAGECOACH_SCHEDULE_FORMATS_PYTORCH_CSV_H_
#define STAGECOACH_SCHEDULE_FORMATS_PYTORCH_CSV_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

// The CSV that torch.distributed.pipelining writes and reads (_dump_csv,
// _load_csv): a row per rank, a cell per action, "0F0", "0SEND_F0", "1RECV_F0";
// an empty cell is a wait. Two forms: computation only, and with communication.
enum class PytorchCsvForm { kCompute, kCommunication };

// AWAIT_RELEASE, REDUCE_TIED, receive depths and pools have no counterpart and
// are left out. kInvalidArgument for kCommunication of a schedule that is not
// lowered.
absl::StatusOr<std::string> ToPytorchCsv(const Schedule& schedule,
                                         PytorchCsvForm form);

// Either form, told apart by whether any cell is a transfer. Placement, V and M
// follow from the cells; the kind is "custom". Without communication the result
// is not lowered; with it, the order of sends and receives is kept and
// AWAIT_RELEASE, depths and pools for `send_budget` are added.
//
// "(0F7;7B3)OVERLAP_F_B" is its two actions, in order. UNSHARD, RESHARD and
// REDUCE_GRAD concern sharded and replicated parameters, which are not part of
// a schedule here: they are skipped. kInvalidArgument "line:column: message"
// for everything else, including what PyTorch 2.11's
// Schedule1F1B.pipeline_order says of its last rank (it starts at microbatch 1
// and names a microbatch M).
absl::StatusOr<Schedule> ParsePytorchCsv(absl::string_view text,
                                         int send_budget = 2);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_FORMATS_PYTORCH_CSV_H_
