#ifndef STAGECOACH_STAGE_WORKER_ENGINE_CONFORMANCE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <string>

#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// What every engine must do whatever it computes. An engine joins with
//
//   INSTANTIATE_TEST_SUITE_P(Torch, EngineConformanceTest,
//                            ::testing::Values(MyCase()));
struct EngineCase {
  std::string name;
  EngineFactory factory;
};

class EngineConformanceTest : public ::testing::TestWithParam<EngineCase> {};

inline void PrintTo(const EngineCase& engine, std::ostream* out) {
  *out << engine.name;
}

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_CONFORMANCE_H_
