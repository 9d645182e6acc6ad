#ifndef STAGECOACH_TRANSPORT_TCP_TESTING_CUTTING_RELAY_H_
#define STAGECOACH_TRANSPORT_TCP_TESTING_CUTTING_RELAY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::tcp {

// A test double of a bad network: passes connections on to an endpoint and cuts
// each after some bytes, counted in both directions together. One thread of its
// own.
class CuttingRelay {
 public:
  // In front of the endpoint that described itself so. `cut_after` is asked for
  // each new connection; negative: never cut.
  CuttingRelay(absl::string_view descriptor,
               std::function<int64_t()> cut_after);
  ~CuttingRelay();
  CuttingRelay(const CuttingRelay&) = delete;
  CuttingRelay& operator=(const CuttingRelay&) = delete;

  // The endpoint's description, but with the relay's address.
  std::string Describe() const { return descriptor_; }
  int cuts() const { return cuts_; }
  // Cuts what stands; new connections wait until Release.
  void Hold() SC_EXCLUDES(mu_);
  void Release() SC_EXCLUDES(mu_);
  // Cuts what stands and takes nothing new.
  void Close() SC_EXCLUDES(mu_);

 private:
  struct Pair;

  enum class Wish { kPass, kHold, kStop };

  void Loop() SC_EXCLUDES(mu_);
  Wish wish() const SC_EXCLUDES(mu_);
  void Ask(Wish wish) SC_EXCLUDES(mu_);
  bool Pass(int from, int to, int64_t* left);

  std::string descriptor_;
  std::string target_;
  const std::function<int64_t()> cut_after_;
  UniqueFd listener_;
  UniqueFd wake_;
  std::atomic<int> cuts_{0};
  mutable Mutex mu_;
  CondVar changed_;
  Wish wish_ SC_GUARDED_BY(mu_) = Wish::kPass;
  bool holding_ SC_GUARDED_BY(mu_) = false;  // nothing stands
  std::thread thread_;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_TESTING_CUTTING_RELAY_H_
