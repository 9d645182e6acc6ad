#include "schedule/verifier_shape.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stagecoach::schedule::verifier {
namespace {

// Entries of a table that is never too large.
constexpr int64_t kSmallTable = 1'000'000;

void AddShape(Findings* findings, int worker, const std::string& message) {
  if (findings->Wants(ErrorKind::kShape, worker)) {
    findings->Add(ErrorKind::kShape, worker, "", message);
  }
}

// What is wrong with sizes, or "".
std::string SizeProblem(const Schedule& s, const VerifyOptions& options) {
  if (s.workers < 1 || s.workers > kMaxWorkers) {
    return absl::StrCat("workers is ", s.workers, "; it must be 1 to ",
                        kMaxWorkers);
  }
  if (s.stages_per_worker < 1 || s.microbatches < 1) {
    return absl::StrCat("stages_per_worker is ", s.stages_per_worker,
                        " and microbatches is ", s.microbatches,
                        "; both must be at least 1");
  }
  const int64_t stages = int64_t{s.workers} * s.stages_per_worker;
  if (static_cast<int64_t>(s.placement.size()) != stages) {
    return absl::StrCat("placement has ", s.placement.size(), " stages; ",
                        s.workers, " workers with ", s.stages_per_worker,
                        " each need ", stages);
  }
  if (s.actions.size() != static_cast<size_t>(s.workers)) {
    return absl::StrCat("there are ", s.actions.size(), " lists for ",
                        s.workers, " workers; give each worker one");
  }
  if (s.send_budget < 0) {
    return absl::StrCat("send_budget is ", s.send_budget,
                        "; it must be at least 1, or 0 without communication");
  }
  if (!options.stage_in_flight_bytes.empty() &&
      options.stage_in_flight_bytes.size() != s.placement.size()) {
    return absl::StrCat("in-flight bytes of ",
                        options.stage_in_flight_bytes.size(),
                        " stages are given for ", s.placement.size());
  }
  for (const int64_t bytes : options.stage_in_flight_bytes) {
    if (bytes < 0) return "in-flight bytes of a stage are negative";
  }
  return "";
}

void CheckStagesPerWorker(const Schedule& s, Findings* findings) {
  std::vector<int> count(static_cast<size_t>(s.workers), 0);
  for (size_t stage = 0; stage < s.placement.size(); ++stage) {
    const int worker = s.placement[stage].value();
    if (worker < 0 || worker >= s.workers) {
      AddShape(findings, worker,
               absl::StrCat("placement puts stage ", stage, " on worker ",
                            worker, "; workers are 0 to ", s.workers - 1));
      return;
    }
    ++count[static_cast<size_t>(worker)];
  }
  for (int w = 0; w < s.workers; ++w) {
    const int held = count[static_cast<size_t>(w)];
    if (held == s.stages_per_worker) continue;
    AddShape(findings, w,
             absl::StrCat("placement puts ", held, " stages on w", w,
                          "; each worker holds stages_per_worker = ",
                          s.stages_per_worker));
  }
}

// What is wrong with the indices of one action, or "".
std::string IndexProblem(const Schedule& s, const Action& action) {
  if (static_cast<unsigned>(action.kind) >
      static_cast<unsigned>(ActionKind::kReduceTied)) {
    return "no such kind of action";
  }
  const int stage = action.stage.value();
  if (stage < 0 || action.stage.index() >= s.placement.size()) {
    return absl::StrCat("stages are 0 to ", s.placement.size() - 1);
  }
  const int m = action.microbatch.value();
  if (action.kind == ActionKind::kReduceTied) {
    return m == 0 ? "" : "the tied embeddings are group 0";
  }
  if (m < 0 || m >= s.microbatches) {
    return absl::StrCat("microbatches are 0 to ", s.microbatches - 1);
  }
  if (s.send_budget == 0 && IsTransfer(action.kind)) {
    return "communication in a schedule with send_budget 0; lower the compute "
           "lists, or set send_budget";
  }
  return "";
}

void CheckIndices(const Schedule& s, Findings* findings) {
  int64_t compute = 0;
  for (int w = 0; w < s.workers; ++w) {
    for (const Action& action : s.actions[static_cast<size_t>(w)]) {
      compute += IsCompute(action.kind) ? 1 : 0;
      const std::string problem = IndexProblem(s, action);
      if (problem.empty() || !findings->Wants(ErrorKind::kShape, w)) continue;
      findings->Add(ErrorKind::kShape, w, At(w, action),
                    absl::StrCat(At(w, action), ": ", problem));
    }
  }
  const int64_t chunks =
      static_cast<int64_t>(s.placement.size()) * s.microbatches;
  // Keeps the tables of the other checks near the size of the input. What is
  // missing of smaller ones they say exactly.
  if (findings->empty() && compute + kSmallTable < chunks &&
      findings->Wants(ErrorKind::kMissing, 0)) {
    findings->Add(
        ErrorKind::kMissing, 0, "",
        absl::StrCat("the lists have ", compute, " compute actions; ",
                     s.placement.size(), " stages and ", s.microbatches,
                     " microbatches need at least ", chunks));
  }
}

void CheckPlans(const Schedule& s, Findings* findings) {
  for (size_t i = 0; i < s.edges.size(); ++i) {
    const EdgePlan& plan = s.edges[i];
    const int worker = plan.edge.to.value();
    const auto complain = [&](const std::string& what) {
      AddShape(findings, worker,
               absl::StrCat("edge ", ToString(plan.edge), ": ", what));
    };
    if (s.send_budget == 0) complain("a plan, but send_budget is 0");
    if (plan.receive_depth < 0) {
      complain(absl::StrCat("receive_depth is ", plan.receive_depth,
                            "; it must be 0 or more"));
    }
    if (i > 0 && !(s.edges[i - 1].edge < plan.edge)) {
      complain("edges must ascend by sender, receiver and direction");
    }
  }
}

// Plans and wires match: needs a View.
void CheckWires(const View& view, Findings* findings) {
  const Schedule& s = view.schedule();
  size_t real = 0;
  for (const Edge& edge : view.edges()) real += edge.depth >= 0 ? 1 : 0;
  if (real != s.edges.size()) {
    AddShape(findings, 0,
             absl::StrCat("of ", s.edges.size(),
                          " planned edges the placement "
                          "has only ",
                          real, "; remove the others"));
  }
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) {
      const int e = view.edge_of(action);
      if (e < 0 || view.edge(e).depth >= 0) continue;
      if (!findings->Wants(ErrorKind::kShape, w)) continue;
      findings->Add(ErrorKind::kShape, w, At(w, action),
                    absl::StrCat(At(w, action),
                                 " uses an edge without receive_depth and "
                                 "pool_slots; plan every edge that is used"));
    }
  }
}

}  // namespace

void CheckShape(const Schedule& schedule, const VerifyOptions& options,
                Findings* findings) {
  if (const std::string problem = SizeProblem(schedule, options);
      !problem.empty()) {
    AddShape(findings, 0, problem);
    return;
  }
  CheckStagesPerWorker(schedule, findings);
  CheckPlans(schedule, findings);
  if (findings->empty()) CheckIndices(schedule, findings);
  if (findings->empty()) CheckWires(View(schedule), findings);
}

}  // namespace stagecoach::schedule::verifier
