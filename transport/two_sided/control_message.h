#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_CONTROL_MESSAGE_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_CONTROL_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"

namespace stagecoach::transport::two_sided {

// What the two ends of an edge say to each other.
//
//   sender                                 receiver
//   kOpen ──────────────────────────────▶
//         ◀────────────────────────────── kWelcome or kRefuse
//   ══ both make the communicator ══
//         ◀──────────────────────── kGrant, for each posted receive
//   kAnnounce, and the payload ─────────▶
//         ◀─────────────────────── kLanded
//         ◀────────────────── kAcknowledge
//   kBye ◀─────────────────────────────▶ kBye, whoever closes first
enum class ControlKind : uint8_t {
  kOpen = 1,
  kWelcome = 2,
  kRefuse = 3,
  kGrant = 4,
  kAnnounce = 5,
  kLanded = 6,
  kAcknowledge = 7,
  kBye = 8,
};

struct ControlMessage {
  ControlKind kind = ControlKind::kOpen;
  std::string edge;
  // Drawn by the sender each time it opens the edge, so that what is left of an
  // earlier opening is told apart.
  uint64_t connection = 0;
  // Which end of the edge is meant; a worker may have both.
  bool to_receiver = false;
  // kGrant: transfers granted so far. kAnnounce: the transfer's number, from 0.
  // kLanded: transfers received so far. kBye: transfers that still complete, so
  // far. kWelcome: bytes of a slot. kRefuse: the status code.
  uint64_t number = 0;
  // kOpen, kWelcome: what the library wants to know of the other end
  // (Communicator::Introduce). kRefuse, kBye: why.
  std::string text;
  // kAnnounce: one. kAcknowledge: at least one.
  std::vector<TransferHeader> headers;
  std::vector<TensorDescriptor> tensors;  // kAnnounce
};

inline constexpr size_t kMaxHeadersPerMessage = 64;
// Encoding cuts a longer text off.
inline constexpr size_t kMaxTextBytes = 4096;

std::string EncodeControl(const ControlMessage& message);
// Whatever came, gives a message whose counts, types and sizes are possible, or
// kDataLoss.
absl::StatusOr<ControlMessage> DecodeControl(absl::string_view bytes);

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_CONTROL_MESSAGE_H_
