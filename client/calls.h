#ifndef STAGECOACH_CLIENT_CALLS_H_
#define STAGECOACH_CLIENT_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/version.h"

// What all calls of a coordinator have in common.
namespace stagecoach::client {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);
// How long a lost coordinator is waited for while a job is followed: one that
// is started again needs a moment.
constexpr absl::Duration kReconnectPatience = absl::Seconds(10);
// And when it is told something, or asked for one job.
constexpr absl::Duration kCommandPatience = absl::Seconds(2);
constexpr absl::Duration kReconnectPause = absl::Milliseconds(200);
// Every call has a deadline: a stream is opened anew after this time.
constexpr absl::Duration kStreamLife = absl::Hours(1);

inline absl::Time Now() { return Clock::Real()->Now(); }

inline void SetTimeout(grpc::ClientContext* context, absl::Duration timeout) {
  context->set_deadline(std::chrono::system_clock::now() +
                        absl::ToChronoMicroseconds(timeout));
}

template <typename Request>
void SetVersion(Request* request) {
  request->mutable_version()->set_version(kVersion);
  request->mutable_version()->set_protocol(kProtocolVersion);
}

template <typename Request>
Request Versioned() {
  Request request;
  SetVersion(&request);
  return request;
}

// Whether a broken stream is worth another try: the coordinator restarts, cut
// us off as a slow reader, or the stream had lived its time.
inline bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_CALLS_H_
