#ifndef STAGECOACH_SCHEDULE_VERIFIER_VIEW_H_
#define STAGECOACH_SCHEDULE_VERIFIER_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/verifier.h"

// The verifier's inside. It reads the schedule's fields and nothing else of
// this folder: no code of generators, lowering or simulator, nor what they use.
namespace stagecoach::schedule::verifier {

enum class ErrorKind {
  kShape,
  kPlacement,
  kMissing,
  kDuplicate,
  kOrder,
  kEdgeOrder,
  kDeadlock,
  kTied,
  kRelease,
  kMemory,
};

// Gathers errors: one per kind, with the first offending action of each worker.
class Findings {
 public:
  // Counts a finding; false if its text would not be shown, so that a caller
  // need not make it.
  bool Wants(ErrorKind kind, int worker);
  // After Wants. `message` is one sentence; the first of a kind is kept.
  void Add(ErrorKind kind, int worker, const std::string& action,
           const std::string& message);
  // An error that is complete but for its kind.
  void AddWhole(ErrorKind kind, VerifyError error);
  bool empty() const;
  std::vector<VerifyError> Take();

 private:
  struct Group {
    int64_t count = 0;
    VerifyError error;
  };
  std::array<Group, 10> groups_;
};

// "w1: 1RECV_B0"
std::string At(int worker, const Action& action);

struct Edge {
  int from = 0;
  int to = 0;
  Direction direction = Direction::kActivation;
  int depth = -1;  // D; -1: the schedule plans none
  int pool_slots = 0;
};

// Flat tables over a schedule whose shape is right. Keeps a reference to it.
class View {
 public:
  explicit View(const Schedule& schedule);

  const Schedule& schedule() const { return schedule_; }
  int workers() const { return schedule_.workers; }
  int stages() const { return static_cast<int>(worker_of_.size()); }
  int microbatches() const { return schedule_.microbatches; }
  bool lowered() const { return schedule_.send_budget > 0; }
  // Whether any list computes a gradient.
  bool has_backward() const { return has_backward_; }
  const std::vector<Action>& list(int worker) const {
    return schedule_.actions[static_cast<size_t>(worker)];
  }
  int worker_of(int stage) const {
    return worker_of_[static_cast<size_t>(stage)];
  }
  // Row of (stage, microbatch) in a table over all of them.
  size_t key(int stage, int microbatch) const {
    return static_cast<size_t>(stage) *
               static_cast<size_t>(schedule_.microbatches) +
           static_cast<size_t>(microbatch);
  }
  size_t key(const Action& action) const {
    return key(action.stage.value(), action.microbatch.value());
  }
  size_t keys() const { return key(stages(), 0); }

  const std::vector<Edge>& edges() const { return edges_; }
  const Edge& edge(int index) const {
    return edges_[static_cast<size_t>(index)];
  }
  // -1 if it does not cross a wire.
  int activation_out(int stage) const { return Out(activation_out_, stage); }
  int activation_in(int stage) const { return Out(activation_out_, stage - 1); }
  int gradient_out(int stage) const { return Out(gradient_out_, stage); }
  int gradient_in(int stage) const { return Out(gradient_out_, stage + 1); }
  // Edge of a communication action; -1 if it crosses no wire.
  int edge_of(const Action& action) const;

 private:
  void NumberEdges();
  void ReadPlans();
  // Index among edges_, or their number if there is no such edge.
  size_t Find(int from, int to, Direction direction) const;
  static int Out(const std::vector<int>& table, int stage) {
    const size_t index = static_cast<size_t>(stage);  // -1 wraps: no entry
    return index < table.size() ? table[index] : -1;
  }

  const Schedule& schedule_;
  bool has_backward_ = false;
  std::vector<int> worker_of_;
  std::vector<Edge> edges_;  // ascending by (from, to, direction)
  std::vector<int> activation_out_;
  std::vector<int> gradient_out_;
};

// What an edge is for.
constexpr bool IsTransfer(ActionKind kind) {
  return IsSend(kind) || IsReceive(kind) || IsAwaitRelease(kind);
}

// One bit per kind of action.
constexpr uint16_t Bit(ActionKind kind) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
}
constexpr uint16_t kGradientBits =
    Bit(ActionKind::kBackward) | Bit(ActionKind::kBackwardInput);

}  // namespace stagecoach::schedule::verifier

#endif  // STAGECOACH_SCHEDULE_VERIFIER_VIEW_H_
