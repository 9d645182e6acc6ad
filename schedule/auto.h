#ifndef STAGECOACH_SCHEDULE_AUTO_H_
#define STAGECOACH_SCHEDULE_AUTO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"

namespace stagecoach::schedule {

// Stages times microbatches up to which the search takes seconds.
inline constexpr int64_t kMaxSearched = 32768;

// What is known of the model cut into P*V stages.
struct StageProfile {
  std::vector<StageCosts> costs;  // one for all stages, or one per stage
  std::vector<StageBytes> bytes;  // likewise; empty: off
};

struct AutoOptions {
  int workers = 0;
  int microbatches = 0;
  // By V - 1: V up to profiles.size() is tried. A profile without costs is a V
  // that is not possible.
  std::vector<StageProfile> profiles;
  std::vector<int> send_budgets = {2};  // K that are tried
  double latency = 0;                   // as in SimulateOptions
  double bandwidth = 0;
  // Of the in-flight bytes of each worker (StageBytes::in_flight), as the
  // verifier counts them; 0: none. Parameters, held outputs and receive pools
  // are the caller's to take off.
  int64_t memory_limit_bytes = 0;
  bool tied_embeddings = false;
  int max_receive_depth = 0;
};

// One way that was tried.
struct AutoCandidate {
  std::string kind;  // a generator's, or "auto": a greedy list
  int stages_per_worker = 1;
  int send_budget = 0;
  int max_in_flight = 0;  // where the kind takes one; 0: its own
  double makespan = 0;
  double bubble_ratio = 0;
  int peak_in_flight = 0;            // chunks, of the worker with most
  int64_t peak_in_flight_bytes = 0;  // likewise; 0 without bytes
  std::string refused;               // why it cannot be taken, or ""
};

struct AutoChoice {
  Schedule schedule;  // lowered and verified
  size_t chosen = 0;  // in `candidates`
  std::vector<AutoCandidate> candidates;
};

// The schedule with the shortest simulated step that keeps the memory limit,
// among every generator that trains, every V, K and in-flight limit, and greedy
// lists (greedy.h) driven by the costs. Never slower than the best generator at
// the same limit, since that is among them; of equal ones the first, generators
// in their table's order before greedy lists.
// kResourceExhausted if none keeps the limit (the message has the smallest that
// one does), kInvalidArgument if options do not fit or the shape is larger than
// kMaxSearched. Pure and deterministic.
absl::StatusOr<AutoChoice> ChooseSchedule(const AutoOptions& options);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_AUTO_H_
