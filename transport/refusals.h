#ifndef STAGECOACH_TRANSPORT_REFUSALS_H_
#define STAGECOACH_TRANSPORT_REFUSALS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stagecoach::transport {

// Why something that came from a peer, or from who claims to be one, was turned
// away.
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
  kMemory,       // shared memory that is not what it says
  kUser,         // of another user of this machine
};
inline constexpr size_t kRefusals = 12;
using RefusalsByReason = std::array<int64_t, kRefusals>;

constexpr const char* NameOf(Refusal reason) {
  constexpr std::array<const char*, kRefusals> kNames = {
      "not ours",        "other version", "other endpoint", "other epoch",
      "wrong token",     "unknown edge",  "too long",       "damaged",
      "out of protocol", "silent",        "false memory",   "other user"};
  return kNames[static_cast<size_t>(reason)];
}

// How often, from an endpoint's start. Thread-safe; figures of one moment may
// be a little apart.
class RefusalCounts {
 public:
  void Add(Refusal reason) { ++counts_[static_cast<size_t>(reason)]; }
  int64_t Of(Refusal reason) const {
    return counts_[static_cast<size_t>(reason)];
  }
  RefusalsByReason ByReason() const {
    RefusalsByReason all{};
    for (size_t i = 0; i < kRefusals; ++i) all[i] = counts_[i];
    return all;
  }

 private:
  std::array<std::atomic<int64_t>, kRefusals> counts_{};
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_REFUSALS_H_
