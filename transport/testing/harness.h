#ifndef STAGECOACH_TRANSPORT_TESTING_HARNESS_H_
#define STAGECOACH_TRANSPORT_TESTING_HARNESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "transport/transport.h"

// What tests of transports share.
namespace stagecoach::transport::testing {

// Far longer than anything takes: a test that hangs fails by it.
inline constexpr absl::Duration kTestDeadline = absl::Seconds(60);

struct Lost {
  std::string edge;
  absl::Status status;
};

// The edges that an endpoint reported as lost. Thread-safe.
class LostEdges {
 public:
  void Add(const std::string& edge, const absl::Status& status)
      SC_EXCLUDES(mu_);
  std::vector<Lost> all() const SC_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  std::vector<Lost> lost_ SC_GUARDED_BY(mu_);
};

EndpointOptions OptionsFor(Doorbell* bell, LostEdges* lost);
EdgeOptions EdgeNamed(const std::string& name);
EdgeOptions PoolNamed(const std::string& name, int slots, size_t slot_bytes);
TransferHeader HeaderOf(int microbatch);

// How often an operation completed, and how. Not thread-safe.
struct Outcome {
  int calls = 0;
  absl::Status status;
  ReceivedTransfer transfer;
};
SendEdge::LocalCompletion Into(Outcome* outcome);
ReceiveEdge::Completion IntoReceive(Outcome* outcome);

// One tensor over the caller's values.
OutgoingTensor TensorOver(const std::vector<int64_t>& values);
std::vector<int64_t> ValuesOf(const ReceivedTransfer& transfer);

// Makes progress on all of `endpoints`, and sleeps on their common bell, until
// `done()`; false after kTestDeadline.
bool Until(Doorbell* bell, const std::vector<Endpoint*>& endpoints,
           const std::function<bool()>& done);

// Makes progress on an endpoint until destroyed.
class ProgressThread {
 public:
  ProgressThread(Endpoint* endpoint, Doorbell* bell);
  ~ProgressThread();

 private:
  Doorbell* const bell_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace stagecoach::transport::testing

#endif  // STAGECOACH_TRANSPORT_TESTING_HARNESS_H_
