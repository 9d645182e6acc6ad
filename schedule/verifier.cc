#include "schedule/verifier.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedule/verifier_deadlock.h"
#include "schedule/verifier_lists.h"
#include "schedule/verifier_shape.h"
#include "schedule/verifier_view.h"

namespace stagecoach::schedule {
namespace verifier {
namespace {

bool EndsBackward(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

// Also counts lists that are wrong: a backward without its forward takes
// nothing away.
std::vector<int> PeakInFlight(const View& view) {
  std::vector<int> peaks;
  std::vector<uint8_t> in_flight(view.keys(), 0);
  for (int w = 0; w < view.workers(); ++w) {
    int now = 0;
    int peak = 0;
    for (const Action& action : view.list(w)) {
      if (!IsCompute(action.kind)) continue;
      uint8_t& mine = in_flight[view.key(action)];
      if (action.kind == ActionKind::kForward && mine == 0) {
        peak = std::max(peak, ++now);
        mine = view.has_backward() ? 1 : 0;
        now -= view.has_backward() ? 0 : 1;
      } else if (EndsBackward(action.kind) && mine != 0) {
        --now;
        mine = 0;
      }
    }
    peaks.push_back(peak);
  }
  return peaks;
}

bool AccumulatesAscending(const View& view) {
  std::vector<int> last(static_cast<size_t>(view.stages()), -1);
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) {
      if (!EndsBackward(action.kind)) continue;
      int& before = last[action.stage.index()];
      if (action.microbatch.value() < before) return false;
      before = action.microbatch.value();
    }
  }
  return true;
}

// Slots of receive pools: from RECV to the stage's last use, D granted ahead.
class PoolCheck {
 public:
  PoolCheck(const View& view, Findings* findings)
      : view_(view), findings_(findings), held_(view.edges().size(), 0) {}

  void Visit(int worker, const Action& action) {
    const int stage = action.stage.value();
    if (IsReceive(action.kind)) {
      Receive(worker, action, view_.edge_of(action));
    } else if (EndsBackward(action.kind)) {
      Return(view_.activation_in(stage));
      Return(view_.gradient_in(stage));
    } else if (action.kind == ActionKind::kForward && !view_.has_backward()) {
      Return(view_.activation_in(stage));
    }
  }

 private:
  void Receive(int worker, const Action& action, int e) {
    const Edge& edge = view_.edge(e);
    const int64_t used = ++held_[static_cast<size_t>(e)] + edge.depth;
    if (used <= edge.pool_slots) return;
    if (!findings_->Wants(ErrorKind::kMemory, worker)) return;
    findings_->Add(ErrorKind::kMemory, worker, At(worker, action),
                   absl::StrCat(At(worker, action), " needs ", used,
                                " slots of the pool of edge ", edge.from, "->",
                                edge.to, ", with ", edge.depth,
                                " granted ahead, but pool_slots is ",
                                edge.pool_slots, "; raise it"));
  }

  void Return(int e) {
    if (e >= 0) --held_[static_cast<size_t>(e)];
  }

  const View& view_;
  Findings* const findings_;
  std::vector<int64_t> held_;  // by edge
};

void CheckPools(const View& view, Findings* findings) {
  if (!view.lowered()) return;
  PoolCheck check(view, findings);
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) check.Visit(w, action);
  }
}

void CheckBytes(const View& view, const VerifyOptions& options,
                Findings* findings) {
  if (options.stage_in_flight_bytes.empty() ||
      options.memory_limit_bytes <= 0) {
    return;
  }
  const int64_t limit = options.memory_limit_bytes;
  for (int w = 0; w < view.workers(); ++w) {
    int64_t now = 0;
    for (const Action& action : view.list(w)) {
      const int64_t bytes = options.stage_in_flight_bytes[action.stage.index()];
      if (EndsBackward(action.kind)) now -= bytes;
      if (action.kind != ActionKind::kForward) continue;
      if (bytes > limit - now) {
        if (findings->Wants(ErrorKind::kMemory, w)) {
          findings->Add(
              ErrorKind::kMemory, w, At(w, action),
              absl::StrCat(At(w, action), " brings w", w, " to ", now, " + ",
                           bytes, " bytes in flight, over the limit of ", limit,
                           "; take a schedule with fewer in flight, or "
                           "smaller microbatches"));
        }
        break;
      }
      if (view.has_backward()) now += bytes;
    }
  }
}

// Each phase relies on the ones before.
void CheckAll(const View& view, const VerifyOptions& options,
              Findings* findings) {
  CheckPlacement(view, findings);
  if (!findings->empty()) return;
  const std::vector<uint16_t> present = CheckComplete(view, options, findings);
  if (!findings->empty()) return;
  CheckOrder(view, findings);
  CheckTied(view, options, findings);
  if (!findings->empty()) return;
  const ReceiveOrder receives = CheckEdgeOrder(view, findings);
  if (!findings->empty()) return;
  CheckDeadlock(view, present, receives, findings);
  CheckPools(view, findings);
  CheckBytes(view, options, findings);
}

}  // namespace
}  // namespace verifier

absl::Status Verdict::ToStatus() const {
  if (ok) return absl::OkStatus();
  std::string text;
  for (const VerifyError& error : errors) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", error.kind, ": ",
                    error.message);
  }
  return absl::InvalidArgumentError(text);
}

Verdict Verify(const Schedule& schedule, const VerifyOptions& options) {
  Verdict verdict;
  verifier::Findings findings;
  verifier::CheckShape(schedule, options, &findings);
  if (findings.empty()) {
    const verifier::View view(schedule);
    verifier::CheckAll(view, options, &findings);
    verdict.peak_in_flight = verifier::PeakInFlight(view);
    verdict.ascending_accumulation = verifier::AccumulatesAscending(view);
  } else if (schedule.workers > 0 && schedule.workers <= kMaxWorkers) {
    verdict.peak_in_flight.assign(static_cast<size_t>(schedule.workers), 0);
  }
  verdict.errors = findings.Take();
  verdict.ok = verdict.errors.empty();
  return verdict;
}

}  // namespace stagecoach::schedule
