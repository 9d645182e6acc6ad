#include "coordinator/coordinator.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/serial_executor.h"
#include "base/status.h"
#include "coordinator/cluster_service.h"
#include "coordinator/job_service.h"
#include "coordinator/journal.h"
#include "coordinator/memory_service.h"
#include "coordinator/session_service.h"
#include "coordinator/ticker.h"
#include "rpc/channel.h"

namespace stagecoach::coordinator {
namespace {

// Grows from life to life without a disk, as long as the wall clock is right.
ControllerOptions WithTerm(ControllerOptions options) {
  options.term = Term(absl::ToUnixMicros(absl::Now()));
  return options;
}

}  // namespace

// Members go from the last to the first: the ticker, the server with all its
// calls, the executors with all their tasks, then what those used. The
// controller is given the addresses of executors that are made after it, and
// uses them only when called.
class Coordinator::Impl {
 public:
  explicit Impl(const Options& options)
      : controller_(WithTerm(options.controller), options.clock, &executor_,
                    &planning_, &journal_),
        executor_("controller"),
        planning_("planning"),
        jobs_(&controller_, options.watch_queue_limit),
        cluster_(&controller_),
        memory_(&controller_),
        sessions_(&controller_) {}
  ~Impl() { Shutdown(absl::Seconds(3)); }

  absl::Status Start(const Options& options) {
    rpc::ListenOptions listen;
    listen.address = options.listen;
    listen.allow_plaintext = options.allow_plaintext;
    grpc::ServerBuilder builder;
    builder.RegisterService(&jobs_);
    builder.RegisterService(&cluster_);
    builder.RegisterService(&memory_);
    builder.RegisterService(&sessions_);
    SC_ASSIGN_OR_RETURN(server_, rpc::Listen(builder, listen));
    ticker_.emplace(options.tick, [this] { controller_.Tick(); });
    return absl::OkStatus();
  }

  const std::string& address() const { return server_.address; }

  void Shutdown(absl::Duration grace) SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    if (server_.server == nullptr) return;
    ticker_.reset();
    controller_.Stop(
        absl::UnavailableError("the coordinator is shutting down"));
    // Returns when every call has ended; what has not by then is cancelled.
    server_.server->Shutdown(std::chrono::system_clock::now() +
                             absl::ToChronoMilliseconds(grace));
    server_.server.reset();
  }

 private:
  MemoryJournal journal_;
  Controller controller_;
  SerialExecutor executor_;
  SerialExecutor planning_;
  JobService jobs_;
  ClusterService cluster_;
  MemoryService memory_;
  SessionService sessions_;
  // Keeps two shutdowns apart; nothing else takes it, so blocking under it
  // hurts nobody.
  Mutex mu_;
  rpc::ListeningServer server_;
  std::optional<Ticker> ticker_;
};

Coordinator::Coordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Coordinator::~Coordinator() = default;

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(
    const Options& options) {
  SC_RETURN_IF_ERROR(ValidateTimes(options.controller));
  auto impl = std::make_unique<Impl>(options);
  SC_RETURN_IF_ERROR(impl->Start(options));
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

const std::string& Coordinator::address() const { return impl_->address(); }

void Coordinator::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace stagecoach::coordinator
