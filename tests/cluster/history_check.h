#ifndef STAGECOACH_TESTS_CLUSTER_HISTORY_CHECK_H_
#define STAGECOACH_TESTS_CLUSTER_HISTORY_CHECK_H_

#include <cstdint>
#include <map>
#include <string>

#include "tests/cluster/cluster.h"

namespace stagecoach::testing {

// Reads `job events` of a job that has succeeded, and fails the test unless
// they tell a life that a job can have: each kind only where it may stand,
// epochs that grow, steps one after the other from 0, or from where the job was
// taken back to, up to `steps`, and nothing behind the end. How often each kind
// came.
std::map<std::string, int> CheckHistory(const Cluster& cluster,
                                        const std::string& id, int64_t steps);

}  // namespace stagecoach::testing

#endif  // STAGECOACH_TESTS_CLUSTER_HISTORY_CHECK_H_
