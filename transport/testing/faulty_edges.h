#ifndef STAGECOACH_TRANSPORT_TESTING_FAULTY_EDGES_H_
#define STAGECOACH_TRANSPORT_TESTING_FAULTY_EDGES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "transport/callback_queue.h"
#include "transport/testing/faulty_endpoint.h"
#include "transport/transport.h"

// What MakeFaultyEndpoint puts between an edge and its user. Private to it.
namespace stagecoach::transport::faulty {

// One wrapped end of an edge. Thread-safe.
class FaultyCore {
 public:
  virtual ~FaultyCore() = default;
  // A poll starts: before the wrapped endpoint's Progress().
  virtual void BeginPoll() = 0;
  // The poll ends: delivers what is due. Whether that was anything.
  virtual bool EndPoll() = 0;
  // Whether something waits for further polls.
  virtual bool Waiting() = 0;
  virtual void Abort(const absl::Status& status) = 0;
};

class FaultyReceive final : public FaultyCore {
 public:
  explicit FaultyReceive(const FaultPlan& plan) : plan_(plan) {}

  // What to post instead of `done`. `self` is this object.
  static ReceiveEdge::Completion Wrap(std::shared_ptr<FaultyReceive> self,
                                      ReceiveEdge::Completion done);
  // After the wrapped edge was closed.
  void Close() SC_EXCLUDES(mu_);

  void BeginPoll() override SC_EXCLUDES(mu_);
  bool EndPoll() override SC_EXCLUDES(mu_);
  bool Waiting() override SC_EXCLUDES(mu_);
  void Abort(const absl::Status& status) override SC_EXCLUDES(mu_);

 private:
  struct Delayed {
    int64_t due = 0;  // poll
    ReceiveEdge::Completion done;
    absl::StatusOr<ReceivedTransfer> result;
  };
  void PushLocked(Delayed delayed) SC_REQUIRES(mu_);

  const FaultPlan plan_;
  CallbackQueue callbacks_;
  Mutex mu_;
  int64_t polls_ SC_GUARDED_BY(mu_) = 0;
  std::deque<Delayed> delayed_ SC_GUARDED_BY(mu_);
};

class FaultySend final : public FaultyCore {
 public:
  FaultySend(const FaultPlan& plan, const EndpointOptions& options,
             std::string edge, Endpoint::AckHandler on_acknowledged)
      : plan_(plan),
        options_(options),
        edge_(std::move(edge)),
        on_acknowledged_(std::move(on_acknowledged)),
        random_(plan.seed) {}

  // Before the first post.
  void Attach(std::unique_ptr<SendEdge> real) SC_EXCLUDES(mu_);
  // Takes the wrapped edge's acknowledgements.
  void OnAcknowledged(const TransferHeader& header) SC_EXCLUDES(mu_);
  // `self` is this object.
  static void Post(const std::shared_ptr<FaultySend>& self,
                   const TransferHeader& header,
                   std::vector<OutgoingTensor> tensors,
                   SendEdge::LocalCompletion done);
  // Closes the wrapped edge too.
  void Close() SC_EXCLUDES(mu_);

  void BeginPoll() override SC_EXCLUDES(mu_);
  bool EndPoll() override SC_EXCLUDES(mu_);
  bool Waiting() override SC_EXCLUDES(mu_);
  void Abort(const absl::Status& status) override SC_EXCLUDES(mu_);

 private:
  struct DelayedAck {
    int64_t due = 0;  // poll
    TransferHeader header;
  };
  bool HasAckFaults() const;
  void QueueAckLocked(const TransferHeader& header) SC_REQUIRES(mu_);
  std::vector<TransferHeader> TakeDueLocked() SC_REQUIRES(mu_);
  // The wrapped edge, or null and `done` fails if the link is dropped (also
  // just now, because this is the n-th send).
  std::shared_ptr<SendEdge> CountSend(SendEdge::LocalCompletion* done)
      SC_EXCLUDES(mu_);
  // The status that `done` gets for the wrapped edge's `status`.
  absl::Status Translate(absl::Status status) SC_EXCLUDES(mu_);
  // Closes the wrapped edge if its time has come.
  bool DropLink() SC_EXCLUDES(mu_);

  const FaultPlan plan_;
  const EndpointOptions options_;
  const std::string edge_;
  const Endpoint::AckHandler on_acknowledged_;
  CallbackQueue callbacks_;
  Mutex mu_;
  std::shared_ptr<SendEdge> real_ SC_GUARDED_BY(mu_);
  absl::Status dropped_ SC_GUARDED_BY(mu_);  // OK: the link stands
  bool drop_due_ SC_GUARDED_BY(mu_) = false;
  bool aborted_ SC_GUARDED_BY(mu_) = false;
  int64_t polls_ SC_GUARDED_BY(mu_) = 0;
  int sends_ SC_GUARDED_BY(mu_) = 0;
  int acks_seen_ SC_GUARDED_BY(mu_) = 0;
  std::mt19937_64 random_ SC_GUARDED_BY(mu_);
  std::deque<DelayedAck> acks_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::transport::faulty

#endif  // STAGECOACH_TRANSPORT_TESTING_FAULTY_EDGES_H_
