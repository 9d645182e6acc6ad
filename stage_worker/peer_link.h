#ifndef STAGECOACH_STAGE_WORKER_PEER_LINK_H_
#define STAGECOACH_STAGE_WORKER_PEER_LINK_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "memory/accounting_allocator.h"
#include "memory/ledger.h"
#include "schedule/schedule.h"
#include "stage_worker/abort_flag.h"
#include "stage_worker/paths.h"
#include "transport/doorbell.h"
#include "transport/transport.h"

namespace stagecoach::worker {

// One FIFO between this worker and another. Beside the schedule's edges there
// are two that carry the tied gradient, one each way.
struct LinkEdge {
  schedule::EdgeId id;
  bool tied = false;

  std::string Name() const;  // "activation 0->1", "tied 3->0"
  friend bool operator==(const LinkEdge& a, const LinkEdge& b) {
    return a.id == b.id && a.tied == b.tied;
  }
};

// What an edge that this worker sends on has carried.
struct EdgeTraffic {
  std::string edge;
  std::string transport;
  int64_t transfers = 0;
  int64_t in_place = 0;  // of them: produced in the receiver's memory
};
struct LinkTraffic {
  std::vector<EdgeTraffic> edges;
  transport::LinkCounters link;

  void Add(const LinkTraffic& other);
};

struct PeerLinkOptions {
  WorkerIndex worker;
  std::vector<std::string> worker_names;         // by index
  const schedule::Schedule* schedule = nullptr;  // must outlive the link
  bool tied_embeddings = false;
  size_t boundary_bytes = 0;  // largest activation or gradient transfer
  size_t tied_bytes = 0;
  bool poison_returned_slots = false;
  Epoch epoch;
  std::vector<Transport> transports;  // the best first
  std::string forced_transport;       // for every edge; empty: the best
  // Own index included.
  PathsResolver paths_of;
  transport::ControlChannelFactory control_channels;  // null: there is none
  // Called once if the link itself sets the abort flag (an edge was lost), on a
  // thread of the transport.
  std::function<void()> on_aborted;
  // All must outlive the link.
  memory::Ledger* ledger = nullptr;
  memory::AccountingAllocator* allocator = nullptr;
  AbortFlag* abort = nullptr;
};

// Joins data path and ledger for one placement: a transfer's acknowledgement
// becomes a release here. Owns the endpoints (one for each kind of transport
// that an edge takes), all edges, the worker's doorbell and the thread that
// makes progress while the engine thread computes.
//
// Thread-safe; the engine thread calls Send, Take and WaitUntil. Received
// memory stays valid as long as someone holds it, also after the link.
class PeerLink {
 public:
  // Descriptor of the endpoint of this kind of a worker (its PeerService
  // knows).
  using Resolver = std::function<absl::StatusOr<std::string>(
      WorkerIndex worker, const std::string& kind)>;
  struct Description {
    std::string kind;
    std::string descriptor;
  };

  // Chooses each edge's path and opens every receiving end. Without any edge
  // (one worker) there is no endpoint either. kFailedPrecondition if an edge
  // has no path.
  static absl::StatusOr<std::unique_ptr<PeerLink>> Create(
      const PeerLinkOptions& options);
  ~PeerLink();

  // What peers need to know; empty without an endpoint.
  std::vector<Description> Describe() const;
  int64_t receive_pool_bytes() const { return receive_pool_bytes_; }

  // Opens every sending end (all peers have opened their receiving ends) and
  // grants the first receives. Blocks at most `timeout` for each edge.
  absl::Status Connect(const Resolver& resolver, absl::Duration timeout);
  // "activation 0->1: shm (same host)" for each edge that this worker sends
  // on.
  std::vector<std::string> EdgeSummaries() const;

  // Starts sending what the ledger has as PRODUCED under this key.
  absl::Status Send(const LinkEdge& edge, const memory::TransferKey& key,
                    std::vector<transport::OutgoingTensor> tensors);
  // Zero copy, as transport::SendEdge: a slot for the transfer that is sent
  // next on this edge.
  std::optional<transport::WritableSlot> TakeSlot(const LinkEdge& edge);
  void ReturnSlot(const LinkEdge& edge, const transport::WritableSlot& slot);
  // As Send, for one tensor that was produced in `slot`. No reference to it may
  // be left in this process.
  absl::Status SendFromSlot(const LinkEdge& edge,
                            const memory::TransferKey& key,
                            const TensorDescriptor& tensor,
                            const transport::WritableSlot& slot);
  LinkTraffic Traffic() const;

  // The next transfer of the edge, if it has arrived; grants one more then.
  std::optional<transport::ReceivedTransfer> Take(const LinkEdge& edge);
  const std::string& PeerName(WorkerIndex worker) const {
    return options_.worker_names[worker.index()];
  }

  // Lets whoever waits look at its condition again.
  void Wake() { doorbell_->Ring(); }
  // Makes progress and sleeps until `condition` holds. Returns the abort's
  // status if that comes first.
  absl::Status WaitUntil(const std::function<bool()>& condition);

  // Fails every outstanding operation and wakes every wait. The abort flag must
  // be set already.
  void Abort();
  // Joins the progress thread and closes all edges; peers see an end, not a
  // loss. Only WaitUntil, Take and the figures may be used afterwards.
  void Stop();

 private:
  struct In {
    LinkEdge edge;
    PathChoice path;
    int depth = 1;
    std::unique_ptr<transport::ReceiveEdge> end;
    std::deque<transport::ReceivedTransfer> arrived;  // guarded by mu_
  };
  struct Out {
    LinkEdge edge;
    PathChoice path;
    std::unique_ptr<transport::SendEdge> end;
    std::atomic<int64_t> transfers{0};
    std::atomic<int64_t> in_place{0};
  };

  explicit PeerLink(const PeerLinkOptions& options);
  absl::Status ChoosePaths();
  absl::Status OpenEndpoints();
  transport::Endpoint* EndpointOf(const PathChoice& path) const;
  // In the order of the schedule.
  std::vector<std::string> EdgesOf(const std::string& kind) const;
  absl::Status OpenReceives();
  void ListEdges();
  void LogTraffic() const;
  void PostReceive(In* in);
  void OnArrived(In* in, absl::StatusOr<transport::ReceivedTransfer> transfer);
  transport::SendEdge::LocalCompletion OnSent(const memory::TransferKey& key);
  void OnAcknowledged(const transport::TransferHeader& header);
  void OnEdgeLost(const std::string& edge, const absl::Status& status);
  void ProgressLoop();
  In* FindIn(const LinkEdge& edge);
  Out* FindOut(const LinkEdge& edge);

  const PeerLinkOptions options_;
  std::unique_ptr<transport::Doorbell> doorbell_;
  // Fixed after Create.
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<In>> ins_;    // fixed after Create
  std::vector<std::unique_ptr<Out>> outs_;  // fixed after Connect
  // The names of both, in the order of the schedule, which all workers have.
  std::vector<std::string> edge_order_;
  int64_t receive_pool_bytes_ = 0;
  Mutex mu_;
  std::atomic<bool> stopping_{false};
  std::thread progress_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PEER_LINK_H_
