// Does every kind of schedule accept every shape, and does it cost what the
// table of docs/schedules.md says?
//
//   bazel run -c opt //benchmarks/schedule:schedule_grid [-- --all]
//
// Every generator, and the search that `auto` is, for P, V and M in a grid with
// M=1, M<P and M that neither P nor V divides, each with K=1 and K=2:
// generated, lowered, verified and simulated at equal costs. Bubble (of a
// worker, in forwards of one stage) and peak in flight (chunks, by worker) are
// compared where the table has a closed form. One line per kind; --all: one per
// case. Exit code 1 if anything is refused or differs.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedule/auto.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/simulator.h"
#include "schedule/testing/expected.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using testing::Figures;
using testing::Shape;

constexpr int kWorkers[] = {1, 2, 3, 4, 6, 8};
constexpr int kMicrobatches[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 25};
constexpr int kSendBudgets[] = {1, 2};
constexpr int kMaxStagesPerWorker = 4;

// What is tried: a generator, or the search over all of them.
struct Kind {
  std::string name;
  int only_stages_per_worker = 0;
  bool trains = true;
};

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  for (const Generator& generator : Generators()) {
    kinds.push_back({std::string(generator.kind),
                     generator.only_stages_per_worker, generator.trains});
  }
  kinds.push_back({"auto"});
  return kinds;
}

std::vector<Shape> Grid(const Kind& kind) {
  const int only = kind.only_stages_per_worker;
  std::vector<Shape> shapes;
  for (const int p : kWorkers) {
    for (int v = std::max(1, only);
         v <= (only == 0 ? kMaxStagesPerWorker : only); ++v) {
      for (const int m : kMicrobatches) {
        for (const int k : kSendBudgets) shapes.push_back({p, v, m, k, false});
      }
    }
  }
  return shapes;
}

// V of `shape` and no other.
absl::StatusOr<Schedule> Search(const Shape& shape) {
  AutoOptions options;
  options.workers = shape.p;
  options.microbatches = shape.m;
  options.profiles.resize(static_cast<size_t>(shape.v));
  options.profiles.back().costs = {StageCosts()};
  options.send_budgets = {shape.k};
  absl::StatusOr<AutoChoice> choice = ChooseSchedule(options);
  if (!choice.ok()) return choice.status();
  return std::move(choice->schedule);
}

absl::StatusOr<Schedule> Make(const Kind& kind, const Shape& shape) {
  if (kind.name == "auto") return Search(shape);
  GenerateOptions options;
  options.workers = shape.p;
  options.stages_per_worker = shape.v;
  options.microbatches = shape.m;
  const absl::StatusOr<Schedule> compute = Generate(kind.name, options);
  if (!compute.ok()) return compute.status();
  LoweringOptions lowering;
  lowering.send_budget = shape.k;
  return Lower(*compute, lowering);
}

// One row of --all.
struct Case {
  std::string refused;  // why, or ""
  double bubble = 0;    // of the worker that idles most
  std::vector<int> peaks;
  bool compared = false;
  bool bubble_equal = false;
  bool peaks_equal = false;
  std::string expected;  // where it differs
};

void Compare(const Kind& kind, const Shape& shape, const Verdict& verdict,
             const SimulateResult& run, Case* result) {
  const Figures* const figures = testing::FindFigures(kind.name);
  if (figures == nullptr || !figures->Hold(shape)) return;
  result->compared = true;
  const double bubble = figures->bubble(shape);
  result->bubble_equal = std::all_of(
      run.workers.begin(), run.workers.end(),
      [bubble](const WorkerTimes& worker) { return worker.idle == bubble; });
  std::vector<int> peaks;
  result->peaks_equal = true;
  for (int w = 0; w < shape.p; ++w) {
    const size_t i = static_cast<size_t>(w);
    peaks.push_back(figures->peak_in_flight(shape, w));
    result->peaks_equal &= verdict.peak_in_flight[i] == peaks.back() &&
                           run.workers[i].peak_in_flight == peaks.back();
  }
  result->expected =
      absl::StrCat("bubble ", bubble, ", peak ", absl::StrJoin(peaks, ","));
}

Case Try(const Kind& kind, const Shape& shape) {
  Case result;
  const absl::StatusOr<Schedule> schedule = Make(kind, shape);
  if (!schedule.ok()) {
    result.refused = schedule.status().ToString();
    return result;
  }
  VerifyOptions demands;
  demands.forward_only = !kind.trains;
  const Verdict verdict = Verify(*schedule, demands);
  const absl::StatusOr<SimulateResult> run = Simulate(*schedule);
  if (!verdict.ok || !run.ok()) {
    result.refused =
        (verdict.ok ? run.status() : verdict.ToStatus()).ToString();
    return result;
  }
  for (const WorkerTimes& worker : run->workers) {
    result.bubble = std::max(result.bubble, worker.idle);
  }
  result.peaks = verdict.peak_in_flight;
  const double least = testing::LeastBubble(kind.name, shape);
  if (result.bubble < least) {
    result.refused = absl::StrCat("bubble under ", least, ", which cannot be");
  }
  Compare(kind, shape, verdict, *run, &result);
  return result;
}

std::string Judgement(const Case& result) {
  if (!result.refused.empty()) return absl::StrCat("REFUSED ", result.refused);
  if (!result.compared) return "verified, simulated";
  if (result.bubble_equal && result.peaks_equal) return "verified, = table";
  return absl::StrCat("verified, DIFFERS from ", result.expected);
}

void PrintCase(const Kind& kind, const Shape& shape, const Case& result) {
  absl::PrintF("%-12s %2d %2d %3d %2d %7g  %-24s %s\n", kind.name, shape.p,
               shape.v, shape.m, shape.k, result.bubble,
               absl::StrJoin(result.peaks, ","), Judgement(result));
}

struct Sums {
  int cases = 0;
  int refused = 0;
  int compared = 0;
  int bubbles_equal = 0;
  int peaks_equal = 0;

  bool good() const {
    return refused == 0 && bubbles_equal == compared && peaks_equal == compared;
  }
};

void Add(const Case& result, Sums* sums) {
  ++sums->cases;
  sums->refused += result.refused.empty() ? 0 : 1;
  sums->compared += result.compared ? 1 : 0;
  sums->bubbles_equal += result.bubble_equal ? 1 : 0;
  sums->peaks_equal += result.peaks_equal ? 1 : 0;
}

void PrintSums(const std::string& name, const Sums& sums) {
  const auto equal = [&sums](int count) {
    return sums.compared == 0 ? std::string("simulated")
                              : absl::StrCat(count, " of ", sums.compared);
  };
  absl::PrintF("%-12s %6d %9d %8d %18s %18s\n", name, sums.cases,
               sums.cases - sums.refused, sums.refused,
               equal(sums.bubbles_equal), equal(sums.peaks_equal));
}

void PrintShapes() {
  const std::vector<Shape> shapes = Grid(Kind());
  const auto count = [&shapes](auto holds) {
    return std::count_if(shapes.begin(), shapes.end(), holds);
  };
  absl::PrintF(
      "P in {%s}, V up to %d, M in {%s}, K in {%s}: %d shapes, of them\n"
      "%d with M=1, %d with M<P, %d with M not divisible by P, %d by V\n\n",
      absl::StrJoin(kWorkers, ","), kMaxStagesPerWorker,
      absl::StrJoin(kMicrobatches, ","), absl::StrJoin(kSendBudgets, ","),
      shapes.size(), count([](const Shape& s) { return s.m == 1; }),
      count([](const Shape& s) { return s.m < s.p; }),
      count([](const Shape& s) { return s.m % s.p != 0; }),
      count([](const Shape& s) { return s.m % s.v != 0; }));
}

bool Run(bool all) {
  PrintShapes();
  if (all) {
    absl::PrintF("%-12s %2s %2s %3s %2s %7s  %-24s %s\n", "kind", "P", "V", "M",
                 "K", "bubble", "peak by worker", "verdict");
  } else {
    absl::PrintF("%-12s %6s %9s %8s %18s %18s\n", "kind", "cases", "verified",
                 "refused", "bubble = table", "peak = table");
  }
  bool good = true;
  for (const Kind& kind : Kinds()) {
    Sums sums;
    for (const Shape& shape : Grid(kind)) {
      const Case result = Try(kind, shape);
      Add(result, &sums);
      const bool wrong =
          !result.refused.empty() ||
          (result.compared && !(result.bubble_equal && result.peaks_equal));
      if (all || wrong) PrintCase(kind, shape, result);
    }
    if (!all) PrintSums(kind.name, sums);
    good = good && sums.good();
  }
  return good;
}

}  // namespace
}  // namespace stagecoach::schedule

int main(int argc, char** argv) {
  const bool all = argc == 2 && std::string(argv[1]) == "--all";
  if (argc > 1 && !all) {
    absl::FPrintF(stderr, "usage: %s [--all]\n", argv[0]);
    return 2;
  }
  return stagecoach::schedule::Run(all) ? 0 : 1;
}
