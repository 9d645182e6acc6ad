#include "coordinator/kept_states.h"

namespace stagecoach::coordinator {

std::optional<KeptChoice> ChooseKept(const KeptByWorker& kept,
                                     const std::string& job_id, size_t stages,
                                     int64_t first_step, int64_t last_step) {
  // By step: the keeper of each stage, and how many stages have one.
  std::map<int64_t, std::map<int32_t, std::string>> keepers;
  for (const auto& [worker, states] : kept) {
    if (states.job_id() != job_id) continue;
    for (const v1::KeptState& state : states.states()) {
      const bool possible =
          state.stage() >= 0 && static_cast<size_t>(state.stage()) < stages &&
          state.step() >= first_step && state.step() <= last_step;
      if (possible) keepers[state.step()].emplace(state.stage(), worker);
    }
  }
  for (auto it = keepers.rbegin(); it != keepers.rend(); ++it) {
    if (stages == 0 || it->second.size() != stages) continue;
    KeptChoice choice;
    choice.step = it->first;
    for (const auto& [stage, worker] : it->second) {
      choice.keepers.push_back(worker);
    }
    return choice;
  }
  return std::nullopt;
}

}  // namespace stagecoach::coordinator
