#include "schedule/verifier_lists.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::schedule::verifier {
namespace {

// ---- completeness ----------------------------------------------------------

struct Wanted {
  uint16_t always = 0;   // each of these
  uint16_t allowed = 0;  // these may be there
};

Wanted WantedOf(const View& view, int stage, bool backward) {
  Wanted wanted;
  wanted.always = Bit(ActionKind::kForward);
  if (view.lowered()) {
    if (view.activation_in(stage) >= 0) {
      wanted.always |= Bit(ActionKind::kReceiveActivation);
    }
    if (view.activation_out(stage) >= 0) {
      wanted.always |= Bit(ActionKind::kSendActivation) |
                       Bit(ActionKind::kAwaitActivationRelease);
    }
    if (backward && view.gradient_in(stage) >= 0) {
      wanted.always |= Bit(ActionKind::kReceiveGradient);
    }
    if (backward && view.gradient_out(stage) >= 0) {
      wanted.always |= Bit(ActionKind::kSendGradient) |
                       Bit(ActionKind::kAwaitGradientRelease);
    }
  }
  wanted.allowed = wanted.always;
  if (backward) {
    wanted.allowed |= kGradientBits | Bit(ActionKind::kBackwardWeight);
  }
  return wanted;
}

void AddChunk(Findings* findings, ErrorKind kind, const View& view, int stage,
              int m, ActionKind action_kind, const char* what) {
  const int worker = view.worker_of(stage);
  if (!findings->Wants(kind, worker)) return;
  const Action action{action_kind, StageIndex(stage), MicrobatchIndex(m)};
  findings->Add(kind, worker, At(worker, action),
                absl::StrCat("stage ", stage, " (w", worker, "), microbatch ",
                             m, ": ", ToString(action), " ", what));
}

ActionKind LowestKind(unsigned bits) {
  unsigned kind = 0;
  while ((bits >> kind & 1u) == 0) ++kind;
  return static_cast<ActionKind>(kind);
}

void CheckChunk(const View& view, const Wanted& wanted, bool backward,
                int stage, int m, unsigned bits, Findings* findings) {
  constexpr unsigned kB = Bit(ActionKind::kBackward);
  constexpr unsigned kI = Bit(ActionKind::kBackwardInput);
  constexpr unsigned kW = Bit(ActionKind::kBackwardWeight);
  const unsigned split = bits & (kI | kW);
  if (const unsigned missing = wanted.always & ~bits; missing != 0) {
    AddChunk(findings, ErrorKind::kMissing, view, stage, m, LowestKind(missing),
             "is missing; each must be there once");
  }
  if (const unsigned surplus = bits & ~unsigned{wanted.allowed}; surplus != 0) {
    AddChunk(findings, ErrorKind::kMissing, view, stage, m, LowestKind(surplus),
             "is there, but what it belongs to is not");
  }
  if (!backward) return;
  if ((bits & kB) != 0 && split != 0) {
    AddChunk(findings, ErrorKind::kDuplicate, view, stage, m, LowestKind(split),
             "repeats part of a full backward");
  } else if ((bits & kB) == 0 && split != (kI | kW)) {
    AddChunk(findings, ErrorKind::kMissing, view, stage, m,
             split == 0    ? ActionKind::kBackward
             : split == kI ? ActionKind::kBackwardWeight
                           : ActionKind::kBackwardInput,
             "is missing; each forward needs its backward");
  }
}

// ---- order -----------------------------------------------------------------

class OrderCheck {
 public:
  OrderCheck(const View& view, Findings* findings)
      : view_(view),
        findings_(findings),
        done_(view.keys(), 0),
        awaited_(view.edges().size(), kNone) {}

  void Visit(int worker, const Action& action) {
    Needs(worker, action);
    if (IsAwaitRelease(action.kind)) Await(worker, action);
    if (IsSend(action.kind)) Send(worker, action);
    done_[view_.key(action)] |= Bit(action.kind);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // Complains unless one of `bits` of that stage was done on this worker.
  void Need(int worker, const Action& action, int stage, unsigned bits,
            ErrorKind kind = ErrorKind::kOrder) {
    const size_t key = view_.key(stage, action.microbatch.value());
    if ((done_[key] & bits) != 0 || !findings_->Wants(kind, worker)) return;
    const Action needed{LowestKind(bits), StageIndex(stage), action.microbatch};
    findings_->Add(
        kind, worker,
        absl::StrCat(At(worker, action), " (needs ", ToString(needed), ")"),
        absl::StrCat(At(worker, action), " comes before ", ToString(needed),
                     ", which it needs; move it behind"));
  }

  void NeedsOfCompute(int worker, const Action& action, int from, int edge,
                      ActionKind receive, unsigned producers) {
    if (edge >= 0) {
      if (view_.lowered()) {
        Need(worker, action, action.stage.value(), Bit(receive));
      }
    } else if (from >= 0 && from < view_.stages()) {
      Need(worker, action, from, producers);
    }
  }

  void Needs(int worker, const Action& action) {
    const int stage = action.stage.value();
    switch (action.kind) {
      case ActionKind::kForward:
        NeedsOfCompute(worker, action, stage - 1, view_.activation_in(stage),
                       ActionKind::kReceiveActivation,
                       Bit(ActionKind::kForward));
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        Need(worker, action, stage, Bit(ActionKind::kForward));
        NeedsOfCompute(worker, action, stage + 1, view_.gradient_in(stage),
                       ActionKind::kReceiveGradient, kGradientBits);
        break;
      case ActionKind::kBackwardWeight:
        Need(worker, action, stage, Bit(ActionKind::kBackwardInput));
        break;
      case ActionKind::kAwaitActivationRelease:
        Need(worker, action, stage, Bit(ActionKind::kForward));
        break;
      case ActionKind::kAwaitGradientRelease:
        Need(worker, action, stage, kGradientBits);
        break;
      default:
        break;
    }
  }

  // Two AWAITs before two SENDs would let K + 1 transfers be unacknowledged.
  void Await(int worker, const Action& action) {
    size_t& awaited = awaited_[EdgeIndex(action)];
    if (awaited != kNone) {
      Release(worker, action,
              "follows another AWAIT_RELEASE of its edge with "
              "no SEND between");
    }
    awaited = view_.key(action);
  }

  void Send(int worker, const Action& action) {
    size_t& awaited = awaited_[EdgeIndex(action)];
    if (awaited != view_.key(action)) {
      Release(worker, action, "does not follow its own AWAIT_RELEASE");
    }
    awaited = kNone;
  }

  void Release(int worker, const Action& action, const char* what) {
    if (!findings_->Wants(ErrorKind::kRelease, worker)) return;
    findings_->Add(
        ErrorKind::kRelease, worker, At(worker, action),
        absl::StrCat(At(worker, action), " ", what,
                     "; on each edge AWAIT_RELEASE and SEND must alternate"));
  }

  size_t EdgeIndex(const Action& action) const {
    return static_cast<size_t>(view_.edge_of(action));
  }

  const View& view_;
  Findings* const findings_;
  std::vector<uint16_t> done_;
  std::vector<size_t> awaited_;  // by edge: key of an AWAIT before its SEND
};

// ---- tied ------------------------------------------------------------------

// One worker's REDUCE_TIED.
class TiedCheck {
 public:
  TiedCheck(const View& view, bool tied, int worker)
      : last_stage_(view.stages() - 1),
        tied_(tied),
        demanded_(tied && (worker == view.worker_of(0) ||
                           worker == view.worker_of(last_stage_))) {}

  // What is wrong with the worker's next action, or null.
  const char* Visit(const Action& action) {
    const int stage = action.stage.value();
    const bool of_tied_stage = stage == 0 || stage == last_stage_;
    if (action.kind != ActionKind::kReduceTied) {
      const bool adds = action.kind == ActionKind::kBackward ||
                        action.kind == ActionKind::kBackwardWeight;
      return count_ > 0 && of_tied_stage && adds
                 ? "adds to a gradient that REDUCE_TIED has reduced already; "
                   "move REDUCE_TIED behind it"
                 : nullptr;
    }
    ++count_;
    if (!tied_) return "nothing is tied; remove it";
    if (!demanded_) {
      return "this worker has neither the first nor the last stage; remove it";
    }
    if (count_ > 1) return "the second one; each worker reduces once per step";
    return of_tied_stage ? nullptr
                         : "only the first and the last stage are tied";
  }
  bool IsMissing() const { return demanded_ && count_ == 0; }

 private:
  const int last_stage_;
  const bool tied_;
  const bool demanded_;
  int count_ = 0;
};

// ---- edge order ------------------------------------------------------------

// The receiving stage's key of the transfer that a SEND or RECV is about.
size_t ReceiverKey(const View& view, const Action& action) {
  const size_t row = static_cast<size_t>(view.microbatches());
  const size_t key = view.key(action);
  if (IsReceive(action.kind)) return key;
  return action.kind == ActionKind::kSendActivation ? key + row : key - row;
}

// Transfer `n` of an edge is sent as `sent` and received as `received`.
void AddEdgeOrder(const View& view, const Edge& edge, size_t n, size_t sent,
                  size_t received, Findings* findings) {
  if (!findings->Wants(ErrorKind::kEdgeOrder, edge.to)) return;
  const bool activation = edge.direction == Direction::kActivation;
  const size_t row = static_cast<size_t>(view.microbatches());
  const auto action = [row](ActionKind kind, size_t key) {
    return Action{kind, StageIndex(static_cast<int>(key / row)),
                  MicrobatchIndex(static_cast<int>(key % row))};
  };
  const std::string send =
      At(edge.from, activation ? action(ActionKind::kSendActivation, sent - row)
                               : action(ActionKind::kSendGradient, sent + row));
  const std::string receive =
      At(edge.to, action(activation ? ActionKind::kReceiveActivation
                                    : ActionKind::kReceiveGradient,
                         received));
  findings->Add(ErrorKind::kEdgeOrder, edge.to,
                absl::StrCat(receive, " (receives what ", send, " sends)"),
                absl::StrCat("edge ", edge.from, "->", edge.to, " ",
                             DirectionName(edge.direction), ": transfer ", n,
                             " is sent by ", send, " but received by ", receive,
                             "; receive in the order of sending"));
}

}  // namespace

void CheckPlacement(const View& view, Findings* findings) {
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) {
      const int owner = view.worker_of(action.stage.value());
      const bool no_wire = IsTransfer(action.kind) && view.edge_of(action) < 0;
      if (owner == w && !no_wire) continue;
      if (!findings->Wants(ErrorKind::kPlacement, w)) continue;
      findings->Add(
          ErrorKind::kPlacement, w, At(w, action),
          owner != w
              ? absl::StrCat(At(w, action), ": stage ", action.stage.value(),
                             " is on w", owner, "; move the action there")
              : absl::StrCat(At(w, action),
                             ": no other worker has that neighbour stage; "
                             "remove the action"));
    }
  }
}

std::vector<uint16_t> CheckComplete(const View& view,
                                    const VerifyOptions& options,
                                    Findings* findings) {
  std::vector<uint16_t> present(view.keys(), 0);
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) {
      if (action.kind == ActionKind::kReduceTied) continue;
      uint16_t& bits = present[view.key(action)];
      if ((bits & Bit(action.kind)) != 0) {
        AddChunk(findings, ErrorKind::kDuplicate, view, action.stage.value(),
                 action.microbatch.value(), action.kind,
                 "is there twice; remove one");
      }
      bits |= Bit(action.kind);
    }
  }
  const bool backward = view.has_backward() || !options.forward_only;
  for (int stage = 0; stage < view.stages(); ++stage) {
    const Wanted wanted = WantedOf(view, stage, backward);
    for (int m = 0; m < view.microbatches(); ++m) {
      CheckChunk(view, wanted, backward, stage, m, present[view.key(stage, m)],
                 findings);
    }
  }
  return present;
}

void CheckOrder(const View& view, Findings* findings) {
  OrderCheck check(view, findings);
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) {
      if (action.kind != ActionKind::kReduceTied) check.Visit(w, action);
    }
  }
}

void CheckTied(const View& view, const VerifyOptions& options,
               Findings* findings) {
  const bool tied = options.tied_embeddings && view.has_backward();
  for (int w = 0; w < view.workers(); ++w) {
    TiedCheck check(view, tied, w);
    for (const Action& action : view.list(w)) {
      const char* problem = check.Visit(action);
      if (problem == nullptr || !findings->Wants(ErrorKind::kTied, w)) continue;
      findings->Add(ErrorKind::kTied, w, At(w, action),
                    absl::StrCat(At(w, action), ": ", problem));
    }
    if (!check.IsMissing() || !findings->Wants(ErrorKind::kTied, w)) continue;
    const int stage = w == view.worker_of(0) ? 0 : view.stages() - 1;
    const Action missing{ActionKind::kReduceTied, StageIndex(stage),
                         MicrobatchIndex(0)};
    findings->Add(ErrorKind::kTied, w, At(w, missing),
                  absl::StrCat(At(w, missing),
                               " is missing; the embeddings are tied, so add "
                               "it at the end of the list"));
  }
}

ReceiveOrder CheckEdgeOrder(const View& view, Findings* findings) {
  ReceiveOrder sends(view.edges().size());
  ReceiveOrder receives(view.edges().size());
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) {
      const int e = view.edge_of(action);
      if (e < 0 || IsAwaitRelease(action.kind)) continue;
      (IsReceive(action.kind) ? receives : sends)[static_cast<size_t>(e)]
          .push_back(ReceiverKey(view, action));
    }
  }
  for (size_t e = 0; e < sends.size(); ++e) {
    if (sends[e] == receives[e]) continue;
    size_t n = 0;
    while (sends[e][n] == receives[e][n]) ++n;
    AddEdgeOrder(view, view.edges()[e], n, sends[e][n], receives[e][n],
                 findings);
  }
  return receives;
}

}  // namespace stagecoach::schedule::verifier
