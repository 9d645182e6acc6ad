#include "stage_worker/copies/neighbour_copies.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::worker {
namespace {

constexpr std::chrono::milliseconds kRetry(100);

// Also from a process that is not, or not any more, the one that was placed:
// then the coordinator is about to end this placement.
bool MayComeLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsFailedPrecondition(status);
}

// Another worker has gone meanwhile: that is not this one's fault.
absl::Status AsLost(const absl::Status& status) {
  if (MayComeLater(status) || absl::IsNotFound(status)) {
    return absl::UnavailableError(status.message());
  }
  return status;
}

}  // namespace

void NeighbourCopies::Copy(int64_t step, std::vector<StageState> states,
                           std::function<void(absl::Status)> done) {
  std::vector<StageIndex> stages;
  for (StageState& state : states) {
    stages.push_back(state.stage.stage);
    options_.vault->Put(step, std::move(state));
  }
  auto self = shared_from_this();
  options_.executor->Add([self, step, stages, done = std::move(done)] {
    done(self->SendAll(step, stages));
  });
}

absl::Status NeighbourCopies::SendAll(int64_t step,
                                      const std::vector<StageIndex>& stages) {
  for (const StageIndex stage : stages) {
    const auto state = options_.vault->Find(options_.job_id, stage, step);
    StateRequest request;
    request.peer = options_.neighbour;
    request.job_id = options_.job_id;
    request.epoch = options_.epoch;
    request.name = {stage, step};
    while (true) {
      if (cancelled_ || state == nullptr) {
        return absl::CancelledError("the job let go");
      }
      absl::Status status = options_.carrier.send(request, *state, cancelled_);
      if (status.ok()) break;
      if (!MayComeLater(status)) return status;
      std::this_thread::sleep_for(kRetry);
    }
  }
  return absl::OkStatus();
}

absl::Status RestoreState(const RestoreOptions& options, StageEngine* engine) {
  std::vector<std::shared_ptr<const StageState>> states;
  for (const StageIndex stage : options.wanted) {
    auto state = options.vault->Find(options.job_id, stage, options.step);
    for (const StateSource& source : options.sources) {
      if (state != nullptr || source.stage != stage) continue;
      StateRequest request;
      request.peer = source.peer;
      request.job_id = options.job_id;
      request.epoch = options.epoch;
      request.name = {stage, options.step};
      absl::StatusOr<StageState> fetched = options.carrier.fetch(request);
      if (!fetched.ok()) return AsLost(fetched.status());
      state = std::make_shared<const StageState>(*std::move(fetched));
    }
    if (state == nullptr) {
      return absl::UnavailableError(absl::StrCat(
          "nobody has stage ", stage.value(), " of ", options.job_id,
          " as it was after ", options.step, " steps"));
    }
    states.push_back(std::move(state));
  }
  SC_RETURN_IF_ERROR(engine->ImportParameters(ParameterReader(states)));
  return engine->ImportOptimizer(OptimizerReader(states));
}

}  // namespace stagecoach::worker
