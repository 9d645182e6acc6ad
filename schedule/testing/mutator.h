#ifndef STAGECOACH_SCHEDULE_TESTING_MUTATOR_H_
#define STAGECOACH_SCHEDULE_TESTING_MUTATOR_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "schedule/generator.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule::testing {

// Random lowered schedules of one kind, and random damage to them: actions
// swapped, moved, dropped, duplicated, given to another stage, microbatch or
// worker; depths, budget and pools made smaller.
class Mutator {
 public:
  struct Shape {
    int most_workers = 5;
    int most_microbatches = 7;
    int most_stages_per_worker = 3;
    int most_send_budget = 3;
  };

  Mutator(uint32_t seed, const Shape& shape) : random_(seed), shape_(shape) {}

  // A schedule that is right. `kind` trains.
  Schedule Original(const Generator& kind);
  // Damages it once, in one case of four twice; returns how. What comes out may
  // be right all the same.
  std::string Mutate(Schedule* schedule);

 private:
  int Pick(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  std::string MutateOnce(Schedule* schedule);
  std::string MutateList(Schedule* schedule, int what);
  std::string SwapIndependent(std::vector<Action>* list, int i);
  std::string Move(std::vector<Action>* list, int from);
  std::string HandOver(Schedule* schedule, std::vector<Action>* list, int i);
  std::string MutatePlan(Schedule* schedule);

  std::mt19937 random_;
  const Shape shape_;
};

}  // namespace stagecoach::schedule::testing

#endif  // STAGECOACH_SCHEDULE_TESTING_MUTATOR_H_
