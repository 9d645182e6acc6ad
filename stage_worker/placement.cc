#include "stage_worker/placement.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status.h"
#include "job/model_shape.h"
#include "job/words.h"
#include "stage_worker/checkpoint/stage_files.h"
#include "stage_worker/engine/memory_profiler.h"
#include "stage_worker/memory_holders.h"

namespace stagecoach::worker {
namespace {

memory::ReleaseRule RuleOf(job::ReleasePolicy policy) {
  switch (policy) {
    case job::ReleasePolicy::kSent:
      return memory::ReleaseRule::kSent;
    case job::ReleasePolicy::kNever:
      return memory::ReleaseRule::kNever;
    case job::ReleasePolicy::kAcknowledged:
      break;
  }
  return memory::ReleaseRule::kAcknowledged;
}

// A step's transfers have 0.
constexpr int32_t kEvaluationReplica = 1;

// What the evaluation's data source goes by: the first samples of its file.
job::JobSpec EvaluationSpec(const job::JobSpec& spec) {
  job::JobSpec evaluation = spec;
  evaluation.data.path = spec.evaluation.path;
  evaluation.data.order = job::SampleOrder::kSequential;
  evaluation.training.microbatches = spec.evaluation.microbatches;
  evaluation.training.last_microbatch_size = 0;
  return evaluation;
}

memory::Ledger::Options LedgerOptions(const PlacementParts& parts,
                                      const PlacementOptions& options) {
  memory::Ledger::Options ledger;
  ledger.rule = RuleOf(options.spec.pipeline.release);
  ledger.epoch = options.epoch;
  ledger.clock = parts.clock;
  return ledger;
}

}  // namespace

Placement::Placement(const PlacementParts& parts,
                     const PlacementOptions& options)
    : parts_(parts),
      options_(options),
      schedule_(options.schedule),
      evaluation_(options.evaluation),
      ledger_(LedgerOptions(parts, options)) {}

absl::StatusOr<std::unique_ptr<Placement>> Placement::Create(
    const PlacementParts& parts, const PlacementOptions& options) {
  auto placement = std::unique_ptr<Placement>(new Placement(parts, options));
  SC_RETURN_IF_ERROR(placement->Build());
  return placement;
}

Placement::~Placement() { Stop(); }

void Placement::Stop() {
  Abort(absl::CancelledError("the placement ended"));
  // The link first: once it is stopped no thread of this process reads an
  // output any more, and what peers have received is in their own memory.
  if (auto link = this->link(); link != nullptr) link->Stop();
  if (executor_ != nullptr) executor_->Clear();
  if (evaluator_ != nullptr) evaluator_->Clear();
  if (engine_ != nullptr) engine_->Drop();
  ledger_.DiscardAll();
  parts_.allocator->SetLimit(0);
  // The next job's blocks have other sizes.
  parts_.allocator->Trim();
}

absl::Status Placement::Build() {
  SC_ASSIGN_OR_RETURN(data_, parts_.data_factory(options_.spec));
  if (evaluation_.workers > 0) {
    SC_ASSIGN_OR_RETURN(evaluation_data_,
                        parts_.data_factory(EvaluationSpec(options_.spec)));
  }
  SC_RETURN_IF_ERROR(BuildEngine());
  // Peaks of this job's steps, not of what came before.
  parts_.allocator->ResetPeaks();
  return OpenLink();
}

absl::Status Placement::OpenLink() {
  SC_ASSIGN_OR_RETURN(std::shared_ptr<PeerLink> link,
                      PeerLink::Create(LinkOptions()));
  StepExecutorOptions executor;
  executor.worker = options_.worker;
  executor.epoch = options_.epoch;
  executor.schedule = &schedule_;
  executor.engine = engine_.get();
  executor.link = link.get();
  executor.ledger = &ledger_;
  executor.abort = &abort_;
  executor.position = &position_;
  executor.after_action = [this](StepIndex step,
                                 const schedule::Action& action) {
    MemoryPoint point;
    point.nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::steady_clock::now().time_since_epoch())
                            .count();
    point.step = step.value();
    point.action = action;
    point.bytes = parts_.allocator->CurrentBytes();
    timeline_.Add(point);
  };
  executor.between_actions = [this] { ServeQuestions(); };
  // What "never" keeps for a backward cannot lie in the receiver's memory.
  executor.produce_in_place =
      parts_.produce_in_place &&
      options_.spec.pipeline.release != job::ReleasePolicy::kNever;
  executor_ = std::make_unique<StepExecutor>(executor);
  if (evaluation_data_ != nullptr) {
    executor.schedule = &evaluation_;
    executor.replica = kEvaluationReplica;
    executor.produce_in_place = false;
    evaluator_ = std::make_unique<StepExecutor>(executor);
  }
  SetLink(std::move(link));
  // It may have come while there was none to tell.
  if (abort_.IsSet()) this->link()->Abort();
  return absl::OkStatus();
}

absl::Status Placement::BuildEngine() {
  EngineOptions engine;
  engine.spec = options_.spec;
  engine.stages = options_.stages;
  engine.data = data_.get();
  SC_ASSIGN_OR_RETURN(engine_, parts_.engine_factory(engine));
  if (parts_.profile_memory) SC_RETURN_IF_ERROR(MeasureMemory());
  if (options_.restore) return options_.restore(engine_.get());
  if (options_.checkpoint.empty()) return absl::OkStatus();
  return checkpoint::LoadState(options_.checkpoint, engine_.get());
}

// Before a checkpoint's state is there, which it would change.
absl::Status Placement::MeasureMemory() {
  MemoryProfilerOptions profiler;
  profiler.engine = engine_.get();
  profiler.spec = options_.spec;
  profiler.stages = options_.stages;
  profiler.data = data_.get();
  profiler.allocator = parts_.allocator;
  SC_ASSIGN_OR_RETURN(memory_profile_, ProfileWorkerMemory(profiler));
  return absl::OkStatus();
}

absl::Status Placement::ChangeSchedule(schedule::Schedule schedule,
                                       schedule::Schedule evaluation) {
  executor_.reset();
  evaluator_.reset();
  // Peers see an end, not a loss.
  if (auto link = this->link(); link != nullptr) {
    link->Stop();
    const LinkTraffic traffic = link->Traffic();
    MutexLock lock(&mu_);
    earlier_traffic_.Add(traffic);
  }
  SetLink(nullptr);
  schedule_ = std::move(schedule);
  evaluation_ = std::move(evaluation);
  return OpenLink();
}

std::shared_ptr<PeerLink> Placement::link() const {
  MutexLock lock(&mu_);
  return link_;
}

void Placement::SetLink(std::shared_ptr<PeerLink> link) {
  {
    MutexLock lock(&mu_);
    link_.swap(link);
  }
  // The old one goes here, not under the lock.
}

PeerLinkOptions Placement::LinkOptions() {
  const job::ModelSpec& model = options_.spec.model;
  PeerLinkOptions link;
  link.worker = options_.worker;
  link.worker_names = options_.worker_names;
  link.schedule = &schedule_;
  link.tied_embeddings = job::SumsTiedGradients(options_.spec);
  link.boundary_bytes = options_.boundary_bytes;
  link.tied_bytes =
      static_cast<size_t>(model.vocabulary * model.hidden) * sizeof(float);
  link.poison_returned_slots = parts_.poison;
  link.epoch = options_.epoch;
  link.transports = parts_.transports;
  if (options_.spec.pipeline.transport != job::TransportKind::kAuto) {
    link.forced_transport =
        std::string(job::WordOf(options_.spec.pipeline.transport));
  }
  link.paths_of = options_.paths_of;
  link.control_channels = options_.control_channels;
  link.on_aborted = options_.on_aborted;
  link.ledger = &ledger_;
  link.allocator = parts_.allocator;
  link.abort = &abort_;
  return link;
}

absl::Status Placement::Connect(const PeerLink::Resolver& resolver,
                                absl::Duration timeout) {
  // Not before: what is measured to see whether a job keeps its limit must not
  // fail for it.
  parts_.allocator->SetLimit(options_.spec.memory.limit_bytes);
  if (parts_.device == nullptr) return link()->Connect(resolver, timeout);
  absl::Status status;
  parts_.device->AroundCommunicators(
      [&] { status = link()->Connect(resolver, timeout); });
  return status;
}

absl::StatusOr<Placement::StepOutcome> Placement::RunStep(StepIndex step,
                                                          int64_t target_tokens,
                                                          double loss_scale) {
  StepOutcome outcome;
  engine_->UseLossScale(loss_scale);
  auto timing = executor_->RunStep(step, target_tokens);
  // The position stays after an error: it is where the fault happened.
  SC_RETURN_IF_ERROR(WithHolders(timing.status()));
  outcome.timing = *timing;
  SC_ASSIGN_OR_RETURN(outcome.gradients, engine_->FinishGradients());
  position_.Clear();
  return outcome;
}

absl::Status Placement::WithHolders(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  const int64_t limit = parts_.allocator->limit_bytes();
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "; limit ",
                   limit > 0 ? FormatByteSize(limit) : std::string("none"),
                   "; ", DescribeHolders(Memory(), engine_->ListHeld())));
}

absl::StatusOr<Placement::Evaluation> Placement::Evaluate(StepIndex step) {
  if (evaluator_ == nullptr) {
    return absl::InternalError("an evaluation that the job's spec has not");
  }
  const absl::Time start = parts_.clock->Now();
  Evaluation evaluation;
  SC_ASSIGN_OR_RETURN(evaluation.losses,
                      evaluator_->RunEvaluation(step, evaluation_data_.get()));
  evaluation.nanoseconds =
      absl::ToInt64Nanoseconds(parts_.clock->Now() - start);
  position_.Clear();
  return evaluation;
}

absl::Status Placement::Apply(const UpdateOptions& update, bool skip) {
  if (!skip) return engine_->ApplyUpdate(update);
  engine_->Drop();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ParameterDigest>> Placement::DigestParameters() {
  return engine_->DigestParameters();
}

absl::StatusOr<std::vector<StageState>> Placement::ExportState() {
  return engine_->ExportState();
}

void Placement::Abort(const absl::Status& status) {
  abort_.Set(status);
  if (auto link = this->link(); link != nullptr) link->Abort();
}

void Placement::AskHeld(EngineQuestions::Answer answer) {
  questions_.Ask(std::move(answer));
  if (auto link = this->link(); link != nullptr) link->Wake();
}

void Placement::ResetPeaks() {
  parts_.allocator->ResetPeaks();
  if (parts_.device != nullptr) parts_.device->ResetPeaks();
}

int64_t Placement::TrimMemory() {
  const int64_t device = parts_.device == nullptr ? 0 : parts_.device->Trim();
  return parts_.allocator->Trim() + device;
}

PlacementMemory Placement::Memory() const {
  PlacementMemory memory;
  memory.allocator = parts_.allocator->Stats();
  if (parts_.device != nullptr) memory.device = parts_.device->Figures();
  memory.ledger = ledger_.Stats();
  for (const StageAssignment& stage : options_.stages) {
    memory.stages.push_back(stage.stage);
  }
  {
    MutexLock lock(&mu_);
    memory.traffic = earlier_traffic_;
  }
  if (auto link = this->link(); link != nullptr) {
    memory.receive_pool_bytes = link->receive_pool_bytes();
    memory.traffic.Add(link->Traffic());
  }
  const std::optional<Position> position = position_.Get();
  if (position) memory.step = position->step.value();
  return memory;
}

}  // namespace stagecoach::worker
