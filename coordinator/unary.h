#ifndef STAGECOACH_COORDINATOR_UNARY_H_
#define STAGECOACH_COORDINATOR_UNARY_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/controller.h"
#include "rpc/channel.h"

namespace stagecoach::coordinator {

// Fills `response` and finishes the call when the controller replies. gRPC
// keeps both alive until then.
template <typename Response>
Reply<Response> ReplyTo(grpc::ServerUnaryReactor* reactor, Response* response) {
  return [reactor, response](absl::StatusOr<Response> result) {
    const absl::Status status = result.status();
    if (status.ok()) *response = *std::move(result);
    reactor->Finish(rpc::ToGrpc(status));
  };
}

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_UNARY_H_
