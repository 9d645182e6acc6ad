// How do generating, lowering and verifying grow with the number of actions,
// and how long does the search for a schedule take?
//
//   bazel run -c opt //benchmarks/schedule:schedule_scale
//
// P=256, V=4, interleaved, M = 1024, 2048 and 4096 (8.4 million compute
// actions), in seconds of one core; each row is also given as a ratio to the
// first. The aims: within 20 s and 4 GiB for the largest, growing linearly, and
// 10 s for the search.

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <ctime>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "schedule/auto.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/schedule.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

// Processor time: there is one thread and no waiting, and other programs on the
// machine do not count.
double Now() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

double PeakGiB() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

struct Measured {
  int64_t actions = 0;
  double generate = 0;
  double lower = 0;
  double verify = 0;
  double total() const { return generate + lower + verify; }
};

absl::Status Measure(int microbatches, Measured* measured) {
  GenerateOptions options;
  options.workers = 256;
  options.stages_per_worker = 4;
  options.microbatches = microbatches;
  const double start = Now();
  const auto compute = Generate("interleaved", options);
  if (!compute.ok()) return compute.status();
  const double generated = Now();
  const auto lowered = Lower(*compute, {});
  if (!lowered.ok()) return lowered.status();
  const double lowered_at = Now();
  const Verdict verdict = Verify(*lowered);
  const double verified = Now();
  for (const auto& list : lowered->actions) {
    measured->actions += static_cast<int64_t>(list.size());
  }
  measured->generate = generated - start;
  measured->lower = lowered_at - generated;
  measured->verify = verified - lowered_at;
  return verdict.ToStatus();
}

absl::Status Scale() {
  absl::PrintF("%12s %12s %9s %9s %9s %9s %8s %8s %9s\n", "microbatches",
               "actions", "generate", "lower", "verify", "total", "actions",
               "time", "peak GiB");
  Measured first;
  for (const int microbatches : {1024, 2048, 4096}) {
    Measured now;
    absl::Status measured = Measure(microbatches, &now);
    if (!measured.ok()) return measured;
    if (first.actions == 0) first = now;
    absl::PrintF(
        "%12d %12d %8.2fs %8.2fs %8.2fs %8.2fs %7.2fx %7.2fx %9.2f\n",
        microbatches, now.actions, now.generate, now.lower, now.verify,
        now.total(),
        static_cast<double>(now.actions) / static_cast<double>(first.actions),
        now.total() / first.total(), PeakGiB());
  }
  return absl::OkStatus();
}

absl::Status Auto() {
  AutoOptions options;
  options.workers = 16;
  options.microbatches = 128;
  for (int v = 1; v <= 4; ++v) {
    StageProfile profile;
    for (int s = 0; s < 16 * v; ++s) {
      // The last stage has the head, the first one the embedding.
      const double extra = s == 16 * v - 1 ? 0.6 : s == 0 ? 0.1 : 0;
      profile.costs.push_back(
          {1.0 / v + extra, 1.1 / v + extra, 0.9 / v + extra});
    }
    options.profiles.push_back(profile);
  }
  const double start = Now();
  const auto choice = ChooseSchedule(options);
  if (!choice.ok()) return choice.status();
  const AutoCandidate& chosen = choice->candidates[choice->chosen];
  double best_fixed = 0;
  for (const AutoCandidate& candidate : choice->candidates) {
    if (candidate.kind == "auto" || !candidate.refused.empty()) continue;
    if (best_fixed == 0 || candidate.makespan < best_fixed) {
      best_fixed = candidate.makespan;
    }
  }
  absl::PrintF(
      "auto, P=16, V<=4, M=128: %.2fs for %d candidates; takes %s, V=%d; step "
      "%.4fx of the best generator's\n",
      Now() - start, choice->candidates.size(), chosen.kind,
      chosen.stages_per_worker, chosen.makespan / best_fixed);
  return absl::OkStatus();
}

int Run() {
  for (const absl::Status& status : {Scale(), Auto()}) {
    if (status.ok()) continue;
    absl::FPrintF(stderr, "%s\n", status.ToString());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach::schedule

int main() { return stagecoach::schedule::Run(); }
