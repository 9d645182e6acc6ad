#ifndef STAGECOACH_STAGE_WORKER_PEER_SERVICE_H_
#define STAGECOACH_STAGE_WORKER_PEER_SERVICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "stage_worker/copies/state_vault.h"
#include "stage_worker/peer_address.h"
#include "stage_worker/peer_control.h"
#include "stage_worker/peer_directory.h"
#include "stagecoach/v1/peer.grpc.pb.h"

namespace stagecoach::worker {

// PeerService over a directory, control channels and a vault of copies, which
// must outlive it.
// Thread-safe.
class PeerService final : public v1::PeerService::CallbackService {
 public:
  PeerService(std::string worker, Incarnation incarnation,
              const PeerDirectory* directory, PeerControl* control,
              StateVault* vault)
      : worker_(std::move(worker)),
        incarnation_(incarnation),
        directory_(directory),
        control_(control),
        vault_(vault) {}

  grpc::ServerUnaryReactor* Describe(
      grpc::CallbackServerContext* context,
      const v1::DescribePeerRequest* request,
      v1::DescribePeerResponse* response) override;
  grpc::ServerUnaryReactor* DescribePaths(
      grpc::CallbackServerContext* context,
      const v1::DescribePathsRequest* request,
      v1::DescribePathsResponse* response) override;
  grpc::ServerBidiReactor<v1::ControlFrame, v1::ControlEnd>* Control(
      grpc::CallbackServerContext* /*context*/) override {
    return control_->Serve();
  }
  grpc::ServerUnaryReactor* KeepState(grpc::CallbackServerContext* context,
                                      const v1::KeepStateRequest* request,
                                      v1::KeepStateResponse* response) override;
  grpc::ServerUnaryReactor* FetchState(
      grpc::CallbackServerContext* context,
      const v1::FetchStateRequest* request,
      v1::FetchStateResponse* response) override;
  // What Describe says. kNotFound and kFailedPrecondition as PeerDirectory.
  absl::Status Answer(const v1::DescribePeerRequest& request,
                      v1::DescribePeerResponse* response) const;

 private:
  const std::string worker_;
  const Incarnation incarnation_;
  const PeerDirectory* const directory_;
  PeerControl* const control_;
  StateVault* const vault_;
};

// Asks a peer what it offers. Blocks at most `timeout`. kFailedPrecondition if
// another process answers than the one expected.
absl::StatusOr<WorkerPaths> DescribePaths(const PeerAddress& peer,
                                          absl::Duration timeout);

// Asks a peer for its descriptor of transport `kind`. Blocks at most `timeout`.
// kFailedPrecondition if another process answers than the one expected, or one
// without that transport.
absl::StatusOr<std::string> DescribePeer(const PeerAddress& peer,
                                         const std::string& job_id, Epoch epoch,
                                         const std::string& kind,
                                         absl::Duration timeout);

// The descriptor in such an answer, and its errors.
absl::StatusOr<std::string> DescriptorIn(
    const v1::DescribePeerResponse& response, const PeerAddress& peer,
    const std::string& kind);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PEER_SERVICE_H_
