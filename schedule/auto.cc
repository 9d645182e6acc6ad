#include "schedule/auto.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "schedule/generator.h"
#include "schedule/greedy.h"
#include "schedule/lowering.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

// In-flight limits tried for kinds that take one and for greedy lists.
constexpr int kMaxLimits = 6;

int64_t LargestSum(const Schedule& schedule,
                   const std::vector<int64_t>& weights) {
  std::vector<int64_t> sums(static_cast<size_t>(schedule.workers), 0);
  for (size_t s = 0; s < weights.size(); ++s) {
    sums[schedule.placement[s].index()] += weights[s];
  }
  return *std::max_element(sums.begin(), sums.end());
}

// At most kMaxLimits numbers from `low` to `high`, both ends among them.
std::vector<int> Spread(int low, int high) {
  std::vector<int> values;
  const int steps = std::min(kMaxLimits, high - low + 1) - 1;
  for (int i = 0; i <= steps; ++i) {
    values.push_back(steps == 0 ? high : low + (high - low) * i / steps);
  }
  return values;
}

class Search {
 public:
  explicit Search(const AutoOptions& options) : options_(options) {}

  absl::StatusOr<AutoChoice> Run();

 private:
  void TryGenerators(int v);
  void TryGreedy(int v);
  void TryPlacement(int v, const Schedule& like);
  void TryOrders(GreedyOptions greedy, int max_in_flight);
  GreedyOptions GreedyBase(int v, const Schedule& like) const;
  // Simulates a compute schedule under every K and keeps the best.
  void Try(const Schedule& compute, AutoCandidate candidate);
  void TryBudget(const Schedule& compute, int budget, AutoCandidate candidate);
  absl::Status Evaluate(const Schedule& schedule, AutoCandidate* candidate);
  absl::Status NothingFits() const;

  const StageProfile& Profile(int v) const {
    return options_.profiles[static_cast<size_t>(v - 1)];
  }
  SimulateOptions Simulation(int v) const;

  const AutoOptions& options_;
  AutoChoice choice_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t smallest_bytes_ = std::numeric_limits<int64_t>::max();
};

SimulateOptions Search::Simulation(int v) const {
  SimulateOptions options;
  options.costs = Profile(v).costs;
  options.bytes = Profile(v).bytes;
  options.latency = options_.latency;
  options.bandwidth = options_.bandwidth;
  return options;
}

absl::Status Search::Evaluate(const Schedule& schedule,
                              AutoCandidate* candidate) {
  SC_ASSIGN_OR_RETURN(
      const SimulateResult run,
      Simulate(schedule, Simulation(schedule.stages_per_worker)));
  candidate->makespan = run.makespan;
  candidate->bubble_ratio = run.bubble_ratio;
  for (const WorkerTimes& worker : run.workers) {
    candidate->peak_in_flight =
        std::max(candidate->peak_in_flight, worker.peak_in_flight);
    candidate->peak_in_flight_bytes =
        std::max(candidate->peak_in_flight_bytes, worker.peak_in_flight_bytes);
  }
  const int64_t limit = options_.memory_limit_bytes;
  if (limit == 0 || candidate->peak_in_flight_bytes <= limit) {
    return absl::OkStatus();
  }
  smallest_bytes_ = std::min(smallest_bytes_, candidate->peak_in_flight_bytes);
  return absl::ResourceExhaustedError(
      absl::StrCat(candidate->peak_in_flight_bytes,
                   " bytes in flight, over the limit of ", limit));
}

void Search::TryBudget(const Schedule& compute, int budget,
                       AutoCandidate candidate) {
  candidate.send_budget = budget;
  LoweringOptions lowering;
  lowering.send_budget = budget;
  lowering.tied_embeddings = options_.tied_embeddings;
  lowering.max_receive_depth = options_.max_receive_depth;
  absl::StatusOr<Schedule> lowered = Lower(compute, lowering);
  const absl::Status status =
      lowered.ok() ? Evaluate(*lowered, &candidate) : lowered.status();
  candidate.refused = std::string(status.message());
  choice_.candidates.push_back(candidate);
  if (!status.ok() || candidate.makespan >= best_) return;
  VerifyOptions demands;
  demands.tied_embeddings = options_.tied_embeddings;
  if (const Verdict verdict = Verify(*lowered, demands); !verdict.ok) {
    choice_.candidates.back().refused =
        std::string(verdict.ToStatus().message());
    return;
  }
  best_ = candidate.makespan;
  choice_.chosen = choice_.candidates.size() - 1;
  choice_.schedule = *std::move(lowered);
}

void Search::Try(const Schedule& compute, AutoCandidate candidate) {
  candidate.stages_per_worker = compute.stages_per_worker;
  for (const int budget : options_.send_budgets) {
    TryBudget(compute, budget, candidate);
  }
}

void Search::TryGenerators(int v) {
  for (const Generator& generator : Generators()) {
    const int only = generator.only_stages_per_worker;
    if (!generator.trains || (only != 0 && only != v)) continue;
    GenerateOptions shape;
    shape.workers = options_.workers;
    shape.stages_per_worker = v;
    shape.microbatches = options_.microbatches;
    AutoCandidate candidate;
    candidate.kind = std::string(generator.kind);
    std::vector<int> limits = {0};
    if (generator.takes_max_in_flight) {
      const std::vector<int> more = Spread(1, 2 * options_.workers - 1);
      limits.insert(limits.end(), more.begin(), more.end());
    }
    for (const int limit : limits) {
      shape.max_in_flight = candidate.max_in_flight = limit;
      const absl::StatusOr<Schedule> compute = Generate(generator.kind, shape);
      if (compute.ok()) Try(*compute, candidate);
    }
  }
}

// `like` has placement and shape.
GreedyOptions Search::GreedyBase(int v, const Schedule& like) const {
  GreedyOptions greedy;
  greedy.placement = like.placement;
  greedy.workers = options_.workers;
  greedy.stages_per_worker = v;
  greedy.microbatches = options_.microbatches;
  const StageProfile& profile = Profile(v);
  for (size_t s = 0; s < like.placement.size(); ++s) {
    greedy.costs.push_back(profile.costs.size() == 1 ? profile.costs[0]
                                                     : profile.costs[s]);
    StageBytes bytes = {1, 0};
    if (!profile.bytes.empty()) {
      bytes = profile.bytes.size() == 1 ? profile.bytes[0] : profile.bytes[s];
    }
    greedy.weights.push_back(bytes.in_flight);
    double transfer = options_.latency;
    if (options_.bandwidth > 0) {
      transfer += static_cast<double>(bytes.output) / options_.bandwidth;
    }
    greedy.transfer_times.push_back(transfer);
  }
  return greedy;
}

void Search::TryOrders(GreedyOptions greedy, int max_in_flight) {
  AutoCandidate candidate;
  candidate.kind = "auto";
  candidate.max_in_flight = max_in_flight;
  for (const bool split : {true, false}) {
    for (const GreedyOrder order :
         {GreedyOrder::kBackwardFirst, GreedyOrder::kForwardFirst,
          GreedyOrder::kAlternate}) {
      greedy.split_backward = split;
      greedy.order = order;
      const absl::StatusOr<Schedule> compute = GreedySchedule(greedy);
      if (compute.ok()) Try(*compute, candidate);
    }
  }
}

void Search::TryPlacement(int v, const Schedule& like) {
  GreedyOptions greedy = GreedyBase(v, like);
  const int64_t one = LargestSum(like, greedy.weights);
  const int64_t limit =
      Profile(v).bytes.empty() ? 0 : options_.memory_limit_bytes;
  const int most =
      std::max(2, std::min(options_.microbatches, 2 * options_.workers));
  for (const int microbatches : Spread(2, most)) {
    greedy.limit = one * microbatches;
    if (limit > 0 && greedy.limit > limit) continue;
    TryOrders(greedy, microbatches * v);
  }
  // And with all that the limit allows.
  greedy.limit = limit;
  TryOrders(greedy, 0);
}

// On the placements of the generators: a loop, and for V = 2 a V.
void Search::TryGreedy(int v) {
  GenerateOptions shape;
  shape.workers = options_.workers;
  shape.stages_per_worker = v;
  shape.microbatches = 1;
  for (const char* kind : {"interleaved", "zbv"}) {
    const absl::StatusOr<Schedule> like = Generate(kind, shape);
    if (like.ok()) TryPlacement(v, *like);
  }
}

absl::Status Search::NothingFits() const {
  if (smallest_bytes_ < std::numeric_limits<int64_t>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no schedule keeps ", options_.memory_limit_bytes,
        " bytes in flight per worker; the smallest limit that one keeps is ",
        smallest_bytes_, ": raise it, or take smaller microbatches"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no schedule is possible; the first was refused: ",
      choice_.candidates.empty() ? "none was tried"
                                 : choice_.candidates.front().refused));
}

absl::StatusOr<AutoChoice> Search::Run() {
  for (int v = 1; v <= static_cast<int>(options_.profiles.size()); ++v) {
    if (Profile(v).costs.empty()) continue;
    TryGenerators(v);
    TryGreedy(v);
  }
  if (choice_.schedule.workers == 0) return NothingFits();
  return std::move(choice_);
}

}  // namespace

absl::StatusOr<AutoChoice> ChooseSchedule(const AutoOptions& options) {
  if (options.workers < 1 || options.microbatches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("workers is ", options.workers, " and microbatches is ",
                     options.microbatches, "; both must be at least 1"));
  }
  const int64_t largest = int64_t{options.workers} * options.microbatches *
                          static_cast<int64_t>(options.profiles.size());
  if (largest > kMaxSearched) {
    return absl::InvalidArgumentError(absl::StrCat(
        largest, " stages times microbatches are more than the ", kMaxSearched,
        " that are searched; name a schedule, or take fewer microbatches or "
        "stages per worker"));
  }
  for (size_t i = 0; i < options.profiles.size(); ++i) {
    const size_t stages = static_cast<size_t>(options.workers) * (i + 1);
    for (const size_t count :
         {options.profiles[i].costs.size(), options.profiles[i].bytes.size()}) {
      if (count <= 1 || count == stages) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the profile for ", i + 1, " stages per worker has ",
                       count, " entries; give one or ", stages));
    }
  }
  return Search(options).Run();
}

}  // namespace stagecoach::schedule
