#ifndef STAGECOACH_CLIENT_OUTPUT_COMPARISON_H_
#define STAGECOACH_CLIENT_OUTPUT_COMPARISON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/output/json.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::client {

// One step of a job beside the same step of its reference.
struct StepComparison {
  int64_t step = 0;
  double loss = 0;
  double reference_loss = 0;
  double grad_norm = 0;
  double reference_grad_norm = 0;
  bool equal = false;  // both numbers, to the last bit
};

// What `verify` found. Pure data.
struct Comparison {
  bool equal = false;
  std::vector<StepComparison> steps;
  int64_t parameters = 0;  // how many were compared
  // Names of parameters whose bytes, shape or type differ, or that one of the
  // two jobs lacks; in name order.
  std::vector<std::string> unequal_parameters;
  // One sentence naming the first step and the first parameter that differ, or
  // what could not be compared; empty if equal.
  std::string difference;
};

// Compares two finished jobs bit by bit. Nothing to compare (no steps, no
// parameters) is a difference too: a check that saw nothing proves nothing.
Comparison Compare(const v1::Job& job, const v1::Job& reference);

// equal difference steps[] parameters unequal_parameters[]; step and parameter
// of the first difference are null if there is none.
Json ComparisonJson(const Comparison& comparison, const v1::Job& job,
                    const v1::Job& reference);
std::string ComparisonText(const Comparison& comparison, const v1::Job& job,
                           const v1::Job& reference);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_COMPARISON_H_
