#include "stage_worker/worker.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/serial_executor.h"
#include "base/status.h"
#include "base/version.h"
#include "rpc/channel.h"
#include "stage_worker/copies/state_vault.h"
#include "stage_worker/peer_control.h"
#include "stage_worker/peer_service.h"
#include "stage_worker/peer_state.h"
#include "stage_worker/session.h"
#include "stage_worker/session_stream.h"
#include "stage_worker/shutdown_watchdog.h"

namespace stagecoach::worker {
namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(200);
// Much shorter than a coordinator waits for its workers after a restart.
constexpr absl::Duration kLastRetry = absl::Seconds(1);
// For the coordinator to take note that this worker leaves.
constexpr absl::Duration kFarewell = absl::Milliseconds(500);
// Until the coordinator has said what it wants.
constexpr int64_t kFirstHeartbeatMilliseconds = 500;
// A shutdown that takes longer is ended by force.
constexpr absl::Duration kShutdownLimit = absl::Seconds(10);

// Deadlines do not follow the calendar's clock, which may jump.
absl::Time Now() { return Clock::Real()->Now(); }

Incarnation DrawIncarnation() {
  std::random_device device;
  return Incarnation((static_cast<uint64_t>(device()) << 32) | device());
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsAlreadyExists(status);
}

}  // namespace

class Worker::Impl {
 public:
  explicit Impl(const WorkerOptions& options)
      : options_(options),
        incarnation_(DrawIncarnation()),
        directory_(OffersOf(options.parts.transports, options.location)),
        control_(incarnation_),
        vault_(options.parts.allocator),
        peer_service_(options.name, incarnation_, &directory_, &control_,
                      &vault_) {}
  ~Impl();

  absl::Status Start();
  absl::Status Wait();
  void Drain(absl::Duration limit);
  void Stop(const absl::Status& status);

 private:
  SessionOptions MakeSessionOptions();
  void Send(v1::WorkerMessage message);
  // The connection thread: opens streams one after the other and sends
  // heartbeats while one is open.
  void ConnectionLoop();
  // Opens a stream and returns how it ended.
  absl::Status RunStream();
  bool StopRequested() {
    MutexLock lock(&mu_);
    return outcome_.has_value();
  }
  // False when asked to stop meanwhile.
  bool SleepUnlessStopped(absl::Duration duration);

  const WorkerOptions options_;
  const Incarnation incarnation_;
  PeerDirectory directory_;
  PeerControl control_;
  StateVault vault_;
  PeerService peer_service_;
  rpc::ListeningServer server_;
  std::unique_ptr<v1::SessionService::Stub> stub_;
  SerialExecutor session_executor_{"session"};
  SerialExecutor engine_executor_{"engine"};
  SerialExecutor files_executor_{"files"};
  SerialExecutor copies_executor_{"copies"};
  std::shared_ptr<Session> session_;
  std::thread connection_;
  std::atomic<int64_t> heartbeat_ms_{kFirstHeartbeatMilliseconds};

  Mutex mu_;
  CondVar changed_;
  std::shared_ptr<SessionStream> stream_ SC_GUARDED_BY(mu_);
  std::optional<absl::Status> stream_ended_ SC_GUARDED_BY(mu_);
  std::optional<absl::Status> outcome_ SC_GUARDED_BY(mu_);
  // When a drain is given up.
  absl::Time drain_deadline_ SC_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

absl::Status Worker::Impl::Start() {
  grpc::ServerBuilder builder;
  builder.RegisterService(&peer_service_);
  rpc::ListenOptions listen;
  listen.address = options_.listen;
  listen.allow_plaintext = options_.allow_plaintext;
  SC_RETURN_IF_ERROR(
      rpc::CheckDial(options_.coordinator, options_.allow_plaintext));
  SC_ASSIGN_OR_RETURN(server_, rpc::Listen(builder, listen));
  stub_ = v1::SessionService::NewStub(rpc::Connect(options_.coordinator));
  session_ = std::make_shared<Session>(MakeSessionOptions());
  connection_ = std::thread([this] { ConnectionLoop(); });
  return absl::OkStatus();
}

SessionOptions Worker::Impl::MakeSessionOptions() {
  SessionOptions session;
  session.worker = options_.name;
  session.incarnation = incarnation_;
  v1::Register& registration = session.registration;
  registration.set_worker(options_.name);
  registration.mutable_version()->set_version(kVersion);
  registration.mutable_version()->set_protocol(kProtocolVersion);
  registration.set_host(HostName());
  registration.set_process_id(getpid());
  registration.set_device(options_.device);
  registration.set_torch_version(options_.torch_version);
  registration.set_peer_address(server_.address);
  for (const Transport& transport : options_.parts.transports) {
    v1::WorkerPath* path = registration.add_paths();
    path->set_transport(transport.kind);
    path->set_obstacle(transport.obstacle);
  }
  session.parts = options_.parts;
  session.executor = &session_executor_;
  session.engine = &engine_executor_;
  session.files = &files_executor_;
  session.copies = &copies_executor_;
  session.vault = &vault_;
  session.carrier = PeerCarrier(options_.parts.allocator);
  session.directory = &directory_;
  session.logs = options_.logs;
  session.control = &control_;
  session.send = [this](v1::WorkerMessage message) {
    Send(std::move(message));
  };
  session.on_welcome = [this](int64_t heartbeat_milliseconds) {
    if (heartbeat_milliseconds > 0) heartbeat_ms_ = heartbeat_milliseconds;
  };
  session.on_shutdown = [this](const std::string& reason) {
    LogInfo(absl::StrCat("stops: ", reason));
    Stop(absl::OkStatus());
  };
  return session;
}

void Worker::Impl::Send(v1::WorkerMessage message) {
  std::shared_ptr<SessionStream> stream;
  {
    MutexLock lock(&mu_);
    stream = stream_;
  }
  if (stream == nullptr) return;
  absl::Status status = stream->Write(std::move(message));
  // A coordinator that does not read any more is cut and met again.
  if (absl::IsResourceExhausted(status)) stream->Cancel();
}

absl::Status Worker::Impl::RunStream() {
  SessionStream::Handlers handlers;
  handlers.on_message = [this](v1::CoordinatorMessage message) {
    session_executor_.Add(
        [this, message = std::move(message)] { session_->OnMessage(message); });
  };
  handlers.on_done = [this](const absl::Status& status) {
    MutexLock lock(&mu_);
    stream_ended_ = status;
    changed_.NotifyAll();
  };
  {
    // Open never calls a handler before it returns to gRPC's threads, but those
    // may be quick: the lock keeps the order.
    MutexLock lock(&mu_);
    stream_ended_.reset();
    stream_ = SessionStream::Open(stub_.get(), std::move(handlers));
  }
  session_executor_.Add([this] { session_->OnConnected(); });
  MutexLock lock(&mu_);
  absl::Time cancel_at = absl::InfiniteFuture();
  while (!stream_ended_.has_value()) {
    absl::Duration wait = absl::Milliseconds(heartbeat_ms_.load());
    if (outcome_.has_value()) {
      if (cancel_at == absl::InfiniteFuture()) {
        cancel_at = Now() + kFarewell;
        session_executor_.Add(
            [this] { session_->SendLeaving("it was told to stop"); });
      } else if (Now() >= cancel_at) {
        stream_->Cancel();
      }
      wait = std::min(wait, kFarewell / 10);
    }
    if (!changed_.WaitFor(&mu_, wait) && !outcome_.has_value()) {
      session_executor_.Add([this] { session_->SendHeartbeat(); });
    }
  }
  stream_.reset();
  // Nobody is there to move the job.
  if (drain_deadline_ != absl::InfiniteFuture() && !outcome_.has_value()) {
    outcome_ = absl::OkStatus();
    changed_.NotifyAll();
  }
  return *stream_ended_;
}

void Worker::Impl::ConnectionLoop() {
  pthread_setname_np(pthread_self(), "connection");
  absl::Duration retry = kFirstRetry;
  absl::Time last_warning = absl::InfinitePast();
  while (!StopRequested()) {
    const absl::Time opened = Now();
    const absl::Status status = RunStream();
    session_executor_.Add([this, status] { session_->OnDisconnected(status); });
    if (StopRequested()) break;
    if (IsRefusal(status)) {
      Stop(status);
      break;
    }
    if (Now() - opened > absl::Seconds(2)) retry = kFirstRetry;
    if (Now() - last_warning > absl::Seconds(10)) {
      last_warning = Now();
      LogWarning(absl::StrCat("no session with the coordinator at ",
                              options_.coordinator, ": ", status.message(),
                              "; trying again"));
    }
    if (!SleepUnlessStopped(retry)) break;
    retry = std::min(2 * retry, kLastRetry);
  }
}

bool Worker::Impl::SleepUnlessStopped(absl::Duration duration) {
  const absl::Time until = Now() + duration;
  MutexLock lock(&mu_);
  while (!outcome_.has_value() && Now() < until) {
    changed_.WaitFor(&mu_, until - Now());
  }
  return !outcome_.has_value();
}

void Worker::Impl::Stop(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (outcome_.has_value()) return;
  outcome_ = status;
  changed_.NotifyAll();
}

void Worker::Impl::Drain(absl::Duration limit) {
  {
    MutexLock lock(&mu_);
    if (drain_deadline_ != absl::InfiniteFuture()) return;
    drain_deadline_ = Now() + limit;
    changed_.NotifyAll();
    if (stream_ == nullptr) outcome_ = absl::OkStatus();
  }
  session_executor_.Add([this] { session_->Drain("it was told to stop"); });
}

absl::Status Worker::Impl::Wait() {
  MutexLock lock(&mu_);
  while (!outcome_.has_value()) {
    const absl::Duration left = drain_deadline_ - Now();
    if (left <= absl::ZeroDuration()) {
      LogWarning("the job was not moved in time; leaving");
      outcome_ = absl::OkStatus();
      changed_.NotifyAll();
    } else if (left == absl::InfiniteDuration()) {
      changed_.Wait(&mu_);
    } else {
      changed_.WaitFor(&mu_, left);
    }
  }
  return *outcome_;
}

Worker::Impl::~Impl() {
  Stop(absl::OkStatus());
  // Whatever hangs below (a kernel, a driver), the process does not stay.
  ShutdownWatchdog watchdog(kShutdownLimit);
  if (connection_.joinable()) connection_.join();
  if (session_ != nullptr) {
    session_executor_.Add([this] { session_->Stop([] {}); });
    session_executor_.Drain();
    engine_executor_.Drain();
    files_executor_.Drain();
    copies_executor_.Drain();
    session_executor_.Drain();
  }
  if (server_.server != nullptr) {
    server_.server->Shutdown(std::chrono::system_clock::now() +
                             std::chrono::seconds(1));
    server_.server->Wait();
  }
}

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() = default;

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(
    const WorkerOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  SC_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Worker>(new Worker(std::move(impl)));
}

absl::Status Worker::Wait() { return impl_->Wait(); }

void Worker::Drain(absl::Duration limit) { impl_->Drain(limit); }

void Worker::Stop(const absl::Status& status) { impl_->Stop(status); }

}  // namespace stagecoach::worker
