#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_EDGE_REGISTRY_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_EDGE_REGISTRY_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "transport/progress_gate.h"
#include "transport/transport.h"
#include "transport/two_sided/edge_end.h"
#include "transport/two_sided/receive_end.h"
#include "transport/two_sided/send_end.h"

namespace stagecoach::transport::two_sided {

// The edges of one endpoint: who gets which message, whose communicator is made
// next, and how all end together. Owned by the endpoint; the methods marked
// "reactor" belong to the reactor's thread, the others are thread-safe.
class EdgeRegistry {
 public:
  EdgeRegistry(const EndpointOptions& options, std::shared_ptr<Shared> shared);

  ring::EdgeContext Context(const std::string& edge) const;
  // kAlreadyExists if the name is taken; the endpoint's status once aborted.
  absl::Status AddReceive(std::shared_ptr<ReceiveEnd> end) SC_EXCLUDES(mu_);
  absl::Status AddSend(std::shared_ptr<SendEnd> end) SC_EXCLUDES(mu_);
  // Closes the edge and forgets it. For the edge objects.
  void Close(EdgeEnd* end) SC_EXCLUDES(mu_);

  bool Progress() SC_EXCLUDES(mu_);
  void Abort(absl::Status status) SC_EXCLUDES(mu_);
  // OK until aborted.
  absl::Status status() const SC_EXCLUDES(mu_);
  // Of control messages, from the start.
  RefusalsByReason refused() const { return refusals_.ByReason(); }

  // Reactor.
  Activity Step();
  void OpenInTurn(const std::shared_ptr<SendEnd>& end);
  void OnMessage(const std::string& from, const std::string& bytes);
  void OnLost(const std::string& peer, const absl::Status& why);

 private:
  using Ends = std::vector<std::shared_ptr<EdgeEnd>>;
  // An edge whose communicator is to be made once its turn has come.
  struct Turn {
    std::string edge;
    std::string sender;  // of an edge that a peer opens
    uint64_t connection = 0;
    std::function<void()> start;
  };

  absl::Status AddLocked(std::shared_ptr<EdgeEnd> end) SC_REQUIRES(mu_);
  // Null, and `known` the names there are.
  std::shared_ptr<ReceiveEnd> FindReceive(const std::string& edge,
                                          std::string* known) const
      SC_EXCLUDES(mu_);
  std::shared_ptr<const Ends> ends() const SC_EXCLUDES(mu_);

  // Reactor.
  void OnOpen(const std::string& from, const ControlMessage& message);
  void Admit(const std::string& from, const ControlMessage& message);
  bool HasItsTurn(const std::string& edge) const;
  void TakeTurns();
  void OnBroken(EdgeEnd* end, const absl::Status& why);
  void AbortAll();

  const EndpointOptions options_;
  const std::shared_ptr<Shared> shared_;
  ProgressGate gate_;
  RefusalCounts refusals_;
  mutable Mutex mu_;
  absl::Status status_ SC_GUARDED_BY(mu_);
  // Replaced, never changed: Progress() walks it without the lock.
  std::shared_ptr<const Ends> ends_ SC_GUARDED_BY(mu_) =
      std::make_shared<const Ends>();
  std::map<std::string, std::shared_ptr<ReceiveEnd>> receives_
      SC_GUARDED_BY(mu_);

  // The reactor's.
  std::deque<Turn> turns_;
  bool taking_turns_ = false;
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_EDGE_REGISTRY_H_
