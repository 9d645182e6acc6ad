#ifndef STAGECOACH_TRANSPORT_SHM_WATCHER_H_
#define STAGECOACH_TRANSPORT_SHM_WATCHER_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "transport/shm/socket.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::shm {

// One thread that waits on all sockets of an endpoint. Thread-safe.
class Watcher {
 public:
  using Clock = std::chrono::steady_clock;
  // Runs on the watcher's thread, with no lock held, when the socket can be
  // read or has ended. False: drop the socket.
  using Handler = std::function<bool()>;

  static absl::StatusOr<std::unique_ptr<Watcher>> Start();
  // Stops.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // From now on `handler` is called for the socket (instead of the one before).
  // If nothing came by `deadline` it is dropped, and `on_late` called instead
  // (likewise; may be null).
  void Watch(std::shared_ptr<Socket> socket, Handler handler,
             Clock::time_point deadline = Clock::time_point::max(),
             std::function<void()> on_late = nullptr) SC_EXCLUDES(mu_);
  // A call that is under way may still be running on return.
  void Drop(const Socket* socket) SC_EXCLUDES(mu_);
  // Joins the thread and drops everything. Not from a handler. Idempotent.
  void Stop() SC_EXCLUDES(mu_);

 private:
  struct Watched {
    std::shared_ptr<Socket> socket;
    std::shared_ptr<Handler> handler;
    Clock::time_point deadline;
    std::function<void()> on_late;
  };
  // What one turn of the loop waits for.
  struct Turn;

  explicit Watcher(UniqueFd wake) : wake_(std::move(wake)) {}
  void Loop() SC_EXCLUDES(mu_);
  // False if it is time to stop.
  bool Prepare(Turn* turn) SC_EXCLUDES(mu_);
  void Handle(const Socket* socket) SC_EXCLUDES(mu_);
  void Wake();

  const UniqueFd wake_;  // an eventfd
  Mutex mu_;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  std::map<const Socket*, Watched> watched_ SC_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace stagecoach::transport::shm

#endif  // STAGECOACH_TRANSPORT_SHM_WATCHER_H_
