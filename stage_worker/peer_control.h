#ifndef STAGECOACH_STAGE_WORKER_PEER_CONTROL_H_
#define STAGECOACH_STAGE_WORKER_PEER_CONTROL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "stage_worker/peer_address.h"
#include "stagecoach/v1/peer.grpc.pb.h"
#include "transport/control_channel.h"

namespace stagecoach::worker {

// A placement as its control channel sees it.
struct ControlledPlacement {
  std::string worker;  // this one
  std::string job_id;
  Epoch epoch;
  std::vector<PeerAddress> peers;  // by index; this worker among them
};

// Control channels over PeerService: a channel's address is its worker's name,
// and what it sends to a peer goes in one stream. Takes what peers send to the
// placement that this worker holds. Must outlive the server that it serves and
// every channel. Thread-safe.
class PeerControl {
 public:
  explicit PeerControl(Incarnation incarnation);
  ~PeerControl();

  // For one endpoint of the placement. A worker has one channel at a time.
  transport::ControlChannelFactory ChannelsOf(ControlledPlacement placement);
  // Of PeerService.Control.
  grpc::ServerBidiReactor<v1::ControlFrame, v1::ControlEnd>* Serve();

 private:
  class Channel;
  class IncomingStream;
  class OutgoingStream;
  class Inbox;

  // Whose stream begins with this frame. kNotFound, kFailedPrecondition as
  // PeerService says.
  absl::StatusOr<std::shared_ptr<Inbox>> Find(const v1::ControlFrame& first)
      SC_EXCLUDES(mu_);
  void Publish(std::shared_ptr<Inbox> inbox) SC_EXCLUDES(mu_);
  void Withdraw(const Inbox* inbox) SC_EXCLUDES(mu_);

  const Incarnation incarnation_;
  Mutex mu_;
  std::shared_ptr<Inbox> inbox_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PEER_CONTROL_H_
