#include "stage_worker/testing/placement_rig.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace stagecoach::worker {
namespace {

// Samples that say where they come from.
class PositionData final : public DataSource {
 public:
  explicit PositionData(const job::JobSpec& spec) : spec_(spec) {}
  absl::StatusOr<TokenBatch> Read(StepIndex step,
                                  MicrobatchIndex microbatch) override {
    TokenBatch batch;
    batch.rows = spec_.training.microbatch_size;
    batch.sequence_length = spec_.data.sequence_length;
    const auto size = static_cast<size_t>(batch.rows * batch.sequence_length);
    const int64_t token = (step.value() * 31 + microbatch.value()) % 251;
    batch.inputs.assign(size, token);
    batch.targets.assign(size, token + 1);
    return batch;
  }
  int64_t samples() const override { return 1; }

 private:
  const job::JobSpec spec_;
};

}  // namespace

job::JobSpec RigSpec(int workers, const std::string& schedule, int microbatches,
                     int stages_per_worker) {
  job::JobSpec spec;
  spec.name = "rig";
  spec.model.layers = workers * stages_per_worker;
  spec.model.hidden = 8;
  spec.model.heads = 2;
  spec.data.path = "nobody reads it";
  spec.data.sequence_length = 4;
  spec.training.microbatch_size = 2;
  spec.training.microbatches = microbatches;
  spec.pipeline.workers = workers;
  spec.pipeline.stages_per_worker = stages_per_worker;
  spec.pipeline.schedule = schedule;
  return spec;
}

absl::StatusOr<std::unique_ptr<PlacementRig>> PlacementRig::Create(
    const Options& options) {
  auto rig = std::unique_ptr<PlacementRig>(new PlacementRig);
  SC_ASSIGN_OR_RETURN(rig->plan_, job::PlanJob(options.spec, nullptr));
  for (int w = 0; w < options.spec.pipeline.workers; ++w) {
    SC_RETURN_IF_ERROR(rig->Build(options, w));
  }
  for (auto& placement : rig->placements_) {
    SC_RETURN_IF_ERROR(placement->Connect(
        [&](WorkerIndex peer,
            const std::string& /*kind*/) -> absl::StatusOr<std::string> {
          return rig->placements_[peer.index()]->Describe()[0].descriptor;
        },
        absl::Seconds(10)));
  }
  return rig;
}

absl::StatusOr<std::unique_ptr<transport::Endpoint>> PlacementRig::NewEndpoint(
    const std::string& path, const transport::EndpointOptions& options) {
  if (path == "loopback") return hub_.NewEndpoint(options);
  if (path == "shm") return transport::NewShmEndpoint(options);
  if (path == "tcp") return transport::NewTcpEndpoint(options);
  return absl::InvalidArgumentError(absl::StrCat("no path ", path));
}

absl::Status PlacementRig::Build(const Options& options, int worker) {
  allocators_.push_back(std::make_unique<memory::AccountingAllocator>());
  memory::AccountingAllocator* allocator = allocators_.back().get();
  PlacementParts parts;
  parts.allocator = allocator;
  parts.clock = options.clock;
  parts.engine_factory = [synthetic = options.synthetic,
                          allocator](const EngineOptions& engine) {
    return NewSyntheticEngine(synthetic, allocator, engine);
  };
  const bool faulty =
      options.faulty_worker < 0 || options.faulty_worker == worker;
  Transport transport;
  transport.kind = options.path;
  transport.factory = [this, path = options.path, faults = options.faults,
                       faulty](const transport::EndpointOptions& endpoint)
      -> absl::StatusOr<std::unique_ptr<transport::Endpoint>> {
    SC_ASSIGN_OR_RETURN(std::unique_ptr<transport::Endpoint> real,
                        NewEndpoint(path, endpoint));
    if (!faulty) return real;
    return transport::MakeFaultyEndpoint(std::move(real), endpoint, faults);
  };
  parts.transports = {transport};
  parts.data_factory = [](const job::JobSpec& spec)
      -> absl::StatusOr<std::unique_ptr<DataSource>> {
    return std::make_unique<PositionData>(spec);
  };
  PlacementOptions placement;
  placement.job_id = "rig";
  placement.epoch = Epoch(3);
  placement.paths_of = [paths = OffersOf(parts.transports, {})](
                           WorkerIndex) -> absl::StatusOr<WorkerPaths> {
    return paths;
  };
  placement.spec = options.spec;
  placement.worker = WorkerIndex(worker);
  for (int w = 0; w < options.spec.pipeline.workers; ++w) {
    placement.worker_names.push_back(absl::StrCat("w", w));
  }
  placement.schedule = plan_.schedule;
  placement.evaluation = plan_.evaluation;
  placement.boundary_bytes = static_cast<size_t>(plan_.boundary.bytes());
  for (StageIndex stage : plan_.schedule.StagesOf(placement.worker)) {
    StageAssignment assignment;
    assignment.stage = stage;
    assignment.layers = plan_.stages[stage.index()];
    assignment.first = plan_.schedule.IsFirst(stage);
    assignment.last = plan_.schedule.IsLast(stage);
    placement.stages.push_back(assignment);
  }
  SC_ASSIGN_OR_RETURN(std::unique_ptr<Placement> built,
                      Placement::Create(parts, placement));
  placements_.push_back(std::move(built));
  return absl::OkStatus();
}

absl::Status PlacementRig::RunStep(int64_t step) {
  outcomes_.assign(placements_.size(), absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (size_t w = 0; w < placements_.size(); ++w) {
    threads.emplace_back([this, w, step] {
      outcomes_[w] = placements_[w]->RunStep(StepIndex(step),
                                             plan_.target_tokens_per_step);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& outcome : outcomes_) {
    SC_RETURN_IF_ERROR(outcome.status());
  }
  return absl::OkStatus();
}

double PlacementRig::Loss() const {
  double sum = 0;
  for (const auto& outcome : outcomes_) {
    for (const MicrobatchLoss& loss : outcome->gradients.losses) {
      sum += loss.loss_sum;
    }
  }
  return sum;
}

}  // namespace stagecoach::worker
