#ifndef STAGECOACH_TRANSPORT_TCP_COUNTERS_H_
#define STAGECOACH_TRANSPORT_TCP_COUNTERS_H_

#include <atomic>
#include <cstdint>

#include "transport/refusals.h"
#include "transport/transport.h"

namespace stagecoach::transport::tcp {

using transport::Refusal;

// What an endpoint counts, from its start. Thread-safe; figures of one moment
// may be a little apart.
struct Counters {
  std::atomic<int64_t> connections{0};  // greeted, either side
  std::atomic<int64_t> reconnections{0};
  std::atomic<int64_t> transfers_received{0};
  // Transfers whose payload was begun again on a new connection.
  std::atomic<int64_t> transfers_resent{0};
  // Payloads that were there already: read and dropped.
  std::atomic<int64_t> duplicate_transfers{0};
  std::atomic<int64_t> duplicate_acknowledgements{0};
  RefusalCounts refused;

  LinkCounters Sums() const {
    LinkCounters sums;
    sums.reconnections = reconnections;
    sums.resent_transfers = transfers_resent;
    sums.duplicate_transfers = duplicate_transfers;
    sums.duplicate_acknowledgements = duplicate_acknowledgements;
    sums.refused_by = refused.ByReason();
    return sums;
  }
  void Refuse(Refusal reason) { refused.Add(reason); }
  int64_t Refused(Refusal reason) const { return refused.Of(reason); }
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_COUNTERS_H_
