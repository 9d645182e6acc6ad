#ifndef STAGECOACH_COORDINATOR_SCRIPTED_WORKER_H_
#define STAGECOACH_COORDINATOR_SCRIPTED_WORKER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// What a worker says when it registers.
v1::WorkerMessage ScriptedRegistration(const std::string& name,
                                       uint64_t incarnation,
                                       const std::string& torch_version);

// What a worker that does everything at once and right would answer, without
// fence; nullopt if the message wants no answer. `assign` is the last one that
// it got. Each microbatch has loss sum 8; the one parameter of worker i has
// squared norm 4.
std::optional<v1::WorkerMessage> ScriptedAnswer(
    const std::string& name, const v1::Assign& assign,
    const v1::CoordinatorMessage& message);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_SCRIPTED_WORKER_H_
