#ifndef STAGECOACH_TRANSPORT_TCP_REACTOR_H_
#define STAGECOACH_TRANSPORT_TCP_REACTOR_H_

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "transport/doorbell.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::tcp {

// Waits on the sockets of an endpoint and calls their handlers, timers and
// tasks, one at a time: "on the reactor". A thread of its own does that, asleep
// in epoll while nothing happens; a thread that waits for a transfer anyway may
// do it too, by Poll(), and so save a wake-up. While somebody polls without
// pause, or sleeps on the doorbell (which wakes it for the sockets, too), the
// own thread stays out of the way. Thread-safe.
class Reactor {
 public:
  using Clock = std::chrono::steady_clock;
  using Task = std::function<void()>;
  class Handler {
   public:
    virtual ~Handler() = default;
    // On the reactor, with no lock held. `events` as of epoll.
    virtual void OnEvents(uint32_t events) = 0;
  };

  // `bell` must outlive the reactor.
  static absl::StatusOr<std::unique_ptr<Reactor>> Start(Doorbell* bell);
  ~Reactor();  // stops
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Calls `handler` whenever `fd` becomes readable or writable
  // (edge-triggered: it must read or write until nothing more goes). The
  // descriptor must stay open until Forget(id).
  uint64_t Watch(int fd, std::shared_ptr<Handler> handler) SC_EXCLUDES(mu_);
  // Never called again once this returns, if called on the reactor.
  void Forget(uint64_t id) SC_EXCLUDES(mu_);

  // Runs `task` on the reactor, soon or at `when`.
  void Post(Task task) SC_EXCLUDES(mu_);
  void PostAt(Clock::time_point when, Task task) SC_EXCLUDES(mu_);
  // Runs `task` on the reactor before it returns. Not from the reactor.
  void Run(const Task& task);

  // Does what can be done now, unless another thread is at it. Whether it
  // called anything.
  bool Poll() SC_EXCLUDES(mu_);
  // Joins the thread; drops handlers, timers and tasks. Not from the reactor.
  // Idempotent.
  void Stop() SC_EXCLUDES(mu_);

 private:
  struct Watched {
    int fd = -1;
    std::shared_ptr<Handler> handler;
  };
  // Being on the reactor: one thread at a time. Who is turned away shuts the
  // gate, which would wake it again at once; who leaves opens it.
  class Turn {
   public:
    // Both epolls must outlive this.
    Turn(int gate, int epoll) : gate_(gate), epoll_(epoll) {}
    bool TryEnter() SC_EXCLUDES(mu_);
    // Waits; threads that only try may overtake.
    void Enter() SC_EXCLUDES(mu_);
    // Waits, and nobody who only tries overtakes.
    void EnterNext() SC_EXCLUDES(mu_);
    void Leave() SC_EXCLUDES(mu_);

   private:
    void SetGate(bool open) SC_REQUIRES(mu_);

    const int gate_;
    const int epoll_;
    Mutex mu_;
    CondVar left_;
    bool is_open_ SC_GUARDED_BY(mu_) = true;
    bool taken_ SC_GUARDED_BY(mu_) = false;
    int next_ SC_GUARDED_BY(mu_) = 0;
  };

  Reactor(Doorbell* bell, UniqueFd epoll, UniqueFd gate, UniqueFd wake);
  void Loop();
  // Sleeps until an event or the next timer, and deals with it.
  void WaitForEvents();
  // The same for timers and tasks alone, for a while.
  void StayAside();
  bool SomebodyElseLooks() const;
  // Another thread polls without pause.
  bool SomebodySpins() const;
  void CountPoll(int64_t start);
  // On the reactor: events, timers, tasks. Whether there were any.
  bool DoWhatIsDue();
  bool RunDue();
  int TimeoutMilliseconds() const SC_EXCLUDES(mu_);
  bool stopping() const SC_EXCLUDES(mu_);
  void Wake();
  void DrainWake();

  Doorbell* const bell_;
  const UniqueFd epoll_;
  // What sleepers look at: readable as epoll_ is, unless it is shut.
  const UniqueFd gate_;
  const UniqueFd wake_;  // an eventfd
  Turn turn_;
  // Nanoseconds of the steady clock when the last poll ended.
  std::atomic<int64_t> last_poll_{0};
  // Up with each poll that follows at once, down with each that does not.
  std::atomic<int> poll_run_{0};
  std::atomic<uint64_t> polls_{0};
  // The own thread sleeps for as long as somebody watches the bell's sources.
  std::atomic<bool> far_aside_{false};
  // Of the own thread: somebody polled all the time of its last nap.
  bool was_busy_ = false;
  // How often in a row it has looked and nobody had polled.
  int quiet_looks_ = 0;
  uint64_t polls_seen_ = 0;
  mutable Mutex mu_;
  bool stopping_ SC_GUARDED_BY(mu_) = false;
  uint64_t next_id_ SC_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, Watched> watched_ SC_GUARDED_BY(mu_);
  std::vector<Task> tasks_ SC_GUARDED_BY(mu_);
  std::multimap<Clock::time_point, Task> timers_ SC_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_REACTOR_H_
