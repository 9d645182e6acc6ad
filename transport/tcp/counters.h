#ifndef STAGECOACH_TRANSPORT_TCP_COUNTERS_H_
#define STAGECOACH_TRANSPORT_TCP_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace stagecoach::transport::tcp {

// Why something that came over a connection was turned away.
enum class Refusal : uint8_t {
  kNotOurs,      // wrong magic: not this protocol
  kVersion,      // another version of it
  kInstance,     // meant for another endpoint than this
  kEpoch,        // of another placement
  kToken,        // without the secret of the descriptor
  kUnknownEdge,  // no such edge here
  kTooLong,      // longer than announced, or than anything may be
  kChecksum,     // damaged on the way
  kProtocol,     // not granted, out of order, not decodable
  kSilent,       // connected and did not greet
};
inline constexpr size_t kRefusals = 10;

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
  std::array<std::atomic<int64_t>, kRefusals> refused{};

  LinkCounters Sums() const {
    LinkCounters sums;
    sums.reconnections = reconnections;
    sums.resent_transfers = transfers_resent;
    sums.duplicate_transfers = duplicate_transfers;
    sums.duplicate_acknowledgements = duplicate_acknowledgements;
    for (const std::atomic<int64_t>& count : refused) sums.refused += count;
    return sums;
  }
  void Refuse(Refusal reason) { ++refused[static_cast<size_t>(reason)]; }
  int64_t Refused(Refusal reason) const {
    return refused[static_cast<size_t>(reason)];
  }
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_COUNTERS_H_
