#include "coordinator/coordinator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/serial_executor.h"
#include "base/status.h"
#include "coordinator/cluster_service.h"
#include "coordinator/job_service.h"
#include "coordinator/journal.h"
#include "coordinator/journal/sqlite_journal.h"
#include "coordinator/memory_service.h"
#include "coordinator/session_service.h"
#include "coordinator/ticker.h"
#include "rpc/channel.h"

namespace stagecoach::coordinator {
namespace {

// A journal and what was in it when it was opened.
struct OpenedJournal {
  std::unique_ptr<Journal> journal;
  ClusterState state;
  // Greater than any before: by the journal, and by the wall clock, for workers
  // may remember a coordinator without this journal.
  Term term;
};

absl::StatusOr<OpenedJournal> OpenJournal(const std::string& directory) {
  OpenedJournal opened;
  const Term now(absl::ToUnixMicros(absl::Now()));
  if (directory.empty()) {
    opened.journal = std::make_unique<MemoryJournal>();
    opened.term = now;
    return opened;
  }
  SqliteJournal::Options options;
  options.directory = directory;
  SC_ASSIGN_OR_RETURN(std::unique_ptr<SqliteJournal> journal,
                      SqliteJournal::Open(options));
  opened.state = journal->TakeState();
  opened.term = std::max(now, opened.state.last_term().Next());
  journal->SetTerm(opened.term);
  opened.journal = std::move(journal);
  return opened;
}

ControllerOptions WithTerm(ControllerOptions options, Term term) {
  options.term = term;
  return options;
}

}  // namespace

// Members go from the last to the first: the ticker, the server with all its
// calls, the executors with all their tasks, then what those used. The
// controller is given the addresses of executors that are made after it, and
// uses them only when called.
class Coordinator::Impl {
 public:
  Impl(const Options& options, OpenedJournal opened)
      : journal_(std::move(opened.journal)),
        controller_(WithTerm(options.controller, opened.term), options.clock,
                    &executor_, &planning_, journal_.get()),
        executor_("controller"),
        planning_("planning"),
        jobs_(&controller_, options.watch_queue_limit),
        cluster_(&controller_),
        memory_(&controller_),
        sessions_(&controller_) {}
  ~Impl() { Shutdown(absl::Seconds(3)); }

  absl::Status Start(const Options& options, ClusterState state) {
    absl::Status taken_over;
    executor_.Add([&] { taken_over = controller_.TakeOver(std::move(state)); });
    executor_.Drain();
    SC_RETURN_IF_ERROR(taken_over);
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
    // What could be found out again need not be, after an orderly end.
    executor_.Add([this] {
      if (const absl::Status status = journal_->Flush(); !status.ok()) {
        LogWarning(absl::StrCat("the journal's end: ", status.message()));
      }
    });
    executor_.Drain();
  }

 private:
  const std::unique_ptr<Journal> journal_;
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
  SC_ASSIGN_OR_RETURN(OpenedJournal opened,
                      OpenJournal(options.data_directory));
  ClusterState state = std::move(opened.state);
  auto impl = std::make_unique<Impl>(options, std::move(opened));
  SC_RETURN_IF_ERROR(impl->Start(options, std::move(state)));
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

const std::string& Coordinator::address() const { return impl_->address(); }

void Coordinator::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace stagecoach::coordinator
