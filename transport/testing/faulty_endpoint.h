#ifndef STAGECOACH_TRANSPORT_TESTING_FAULTY_ENDPOINT_H_
#define STAGECOACH_TRANSPORT_TESTING_FAULTY_ENDPOINT_H_

#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace stagecoach::transport {

// What to do to the transfers that pass; all counts are per edge. Seeded and
// deterministic in the number of operations, not in time.
struct FaultPlan {
  uint64_t seed = 1;
  // Deliver each received transfer only after this many further calls of
  // Progress() (a slow reader). The acknowledgement is as late.
  int delay_receive_polls = 0;
  // Deliver acknowledgements to the sender this many polls late.
  int delay_ack_polls = 0;
  // Deliver every n-th acknowledgement twice; 0: never.
  int duplicate_ack_every = 0;
  // Swap neighbouring acknowledgements where two wait.
  bool reorder_acks = false;
  // Send one acknowledgement of an older epoch, and one of an unknown
  // microbatch, before every n-th; 0: never.
  int stale_ack_every = 0;
  int unknown_ack_every = 0;
  // Swallow the acknowledgement of the n-th transfer (from 1) for ever; 0:
  // none.
  int lose_ack_at = 0;
  // Fail the edge at the n-th send (from 1); 0: never.
  int drop_link_at_send = 0;

  // Parses "delay_receive_polls=3,seed=7"; unknown names are refused.
  static absl::StatusOr<FaultPlan> Parse(absl::string_view text);
};

// Wraps a real endpoint. Thread-safe as the wrapped one.
std::unique_ptr<Endpoint> MakeFaultyEndpoint(std::unique_ptr<Endpoint> real,
                                             const EndpointOptions& options,
                                             const FaultPlan& plan);

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_TESTING_FAULTY_ENDPOINT_H_
