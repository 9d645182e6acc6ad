#ifndef STAGECOACH_TRANSPORT_SHM_GREETING_H_
#define STAGECOACH_TRANSPORT_SHM_GREETING_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/shm/descriptor.h"

// The packets on an edge's socket:
//
//   sender ── hello (token, epoch, edge's name; doorbell) ──▶ receiver
//          ◀── welcome (OK; the edge's memory, its doorbell) or refusal ──
//          ◀── bye, from either side, before it closes ──▶
namespace stagecoach::transport::shm {

inline constexpr size_t kMaxEdgeNameBytes = 400;
inline constexpr absl::string_view kBye = "bye";

struct Hello {
  Token token{};
  std::string edge;
  int64_t epoch = 0;  // of the sender's placement
};

// kInvalidArgument for an edge name that is empty or too long.
absl::StatusOr<std::string> EncodeHello(const Hello& hello);
// kInvalidArgument for anything else, kFailedPrecondition for another version.
absl::StatusOr<Hello> DecodeHello(absl::string_view packet);

// A welcome if `status` is OK, else a refusal (with a shortened message).
std::string EncodeAnswer(const absl::Status& status);
// What the answer says; kDataLoss if it is none.
absl::Status DecodeAnswer(absl::string_view packet);

}  // namespace stagecoach::transport::shm

#endif  // STAGECOACH_TRANSPORT_SHM_GREETING_H_
