#ifndef STAGECOACH_CLIENT_OUTPUT_ALTERNATIVES_H_
#define STAGECOACH_CLIENT_OUTPUT_ALTERNATIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/output/json.h"
#include "job/job_spec.h"
#include "job/plan.h"

namespace stagecoach::client {

// What a job would be under one schedule. Pure data.
struct Alternative {
  std::string schedule;       // a kind, "auto", or the spec's schedule file
  int stages_per_worker = 1;  // V
  bool this_job = false;      // what the spec asks for
  std::string takes;          // of "auto": the kind it chose; else ""
  int max_in_flight = 0;      // of "auto": the limit it chose; 0: none
  // Why it cannot be taken; "" if it is verified. Then only:
  std::string refused;
  bool ascending_accumulation = false;
  // With a profile: seconds of a step. Else at equal costs: 1 is the forward of
  // one microbatch through all layers of a worker, whatever V is; input and
  // weight gradient take as long each.
  double time = 0;
  double bubble_ratio = 0;
  // Stage and microbatch pairs, of the worker with most.
  int peak_in_flight = 0;
  int64_t peak_in_flight_bytes = 0;  // likewise, with a profile

  // Likewise, but the same whatever V is: 1 is what one microbatch keeps on a
  // worker.
  double activations() const {
    return static_cast<double>(peak_in_flight) / stages_per_worker;
  }
  bool verified() const { return refused.empty(); }
};

// One for each kind that trains and each V up to 4 that gives every stage a
// layer (and the spec's own V), a kind without such a V with the reason, and
// last what schedule::ChooseSchedule takes among them and its own lists. A spec
// with a schedule file comes first. Needs the plan of `spec`, made with the
// same profile (or null). Each V is split by itself. Pure; seconds for large
// jobs.
std::vector<Alternative> FindAlternatives(const job::JobSpec& spec,
                                          const job::JobPlan& plan,
                                          const job::ModelProfile* profile);

// [] {schedule stages_per_worker this_job verified refused
// ascending_accumulation time bubble_ratio peak_in_flight activations}, "auto"
// also takes and max_in_flight; null for what is not known of a refused one.
// Measured ones have predicted_step_seconds and peak_in_flight_bytes instead of
// time.
Json AlternativesJson(const std::vector<Alternative>& alternatives,
                      bool measured);
std::string AlternativesText(const std::vector<Alternative>& alternatives,
                             bool measured);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_ALTERNATIVES_H_
