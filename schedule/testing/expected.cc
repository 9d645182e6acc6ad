#include "schedule/testing/expected.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace stagecoach::schedule::testing {
namespace {

using OfWorker = std::function<int(const Shape&, int)>;

// What a stage holds but the last one, which sends nothing.
OfWorker ButForTheLastStage(OfWorker held) {
  return
      [held](const Shape& s, int w) { return w == s.p - 1 ? 0 : held(s, w); };
}

Figures ZeroBubble(std::function<int(const Shape&)> peak,
                   std::function<bool(const Shape&)> where) {
  const OfWorker of_worker = [peak](const Shape& s, int) { return peak(s); };
  return {[](const Shape& s) { return 1.0 * (s.p - 1); }, of_worker,
          ButForTheLastStage(of_worker), where};
}

int InterleavedGroup(const Shape& s) {
  if (s.m % s.p == 0) return s.p;
  const int groups = std::max(1, s.m / s.p);
  return (s.m + groups - 1) / groups;
}

double FillAndDrain(const Shape& s) { return 3.0 * (s.p - 1); }

double LoopBubble(const Shape& s) {
  return 3.0 * (s.p - 1 + (s.v - 1) * std::max(0, s.p - s.m));
}

double OneForwardEach(const Shape& s) { return 1.0 * (s.p - 1); }

int AllMicrobatches(const Shape& s, int) { return s.m; }

int UpToTheEnd(const Shape& s, int w) { return std::min(s.m, s.p - w); }

int UpToTheEndAndBack(const Shape& s, int w) {
  return std::min(s.m, 2 * (s.p - w) - 1);
}

int InterleavedPeak(const Shape& s, int w) {
  return std::min(s.m * s.v,
                  2 * (s.p - w - 1) + (s.v - 1) * InterleavedGroup(s) + 1);
}

int LoopedBfsHeld(const Shape& s, int w) {
  if (s.p == 1) return 0;
  return w == s.p - 1 ? s.m * (s.v - 1) : s.m * s.v;
}

std::map<std::string, Figures, std::less<>> MakeTable() {
  return {
      {"gpipe",
       {FillAndDrain, AllMicrobatches, ButForTheLastStage(AllMicrobatches)}},
      {"1f1b", {FillAndDrain, UpToTheEnd, ButForTheLastStage(UpToTheEnd)}},
      {"eager-1f1b",
       {FillAndDrain, UpToTheEndAndBack,
        ButForTheLastStage(UpToTheEndAndBack)}},
      {"interleaved", {LoopBubble, InterleavedPeak, nullptr}},
      {"looped-bfs",
       {LoopBubble, [](const Shape& s, int) { return s.m * s.v; },
        LoopedBfsHeld}},
      {"zb-h1", ZeroBubble([](const Shape& s) { return std::min(s.m, s.p); },
                           [](const Shape& s) { return s.m >= s.p; })},
      {"zb-h2",
       ZeroBubble([](const Shape& s) { return std::min(s.m, 2 * s.p - 1); },
                  [](const Shape& s) { return s.m >= 2 * s.p - 1; })},
      {"zbv",
       {OneForwardEach, [](const Shape& s, int) { return 2 * s.p; }, nullptr,
        [](const Shape& s) { return s.m >= 2 * s.p - 1; }}},
      // A forward and a backward one after the other, not as one unit. The
      // first worker comes to its peak only with one more microbatch.
      {"dualpipe-v",
       {OneForwardEach, [](const Shape& s, int) { return 2 * s.p + 1; },
        nullptr, [](const Shape& s) { return s.m >= 2 * s.p; }}},
      {"forward-only",
       {[](const Shape& s) { return 1.0 * (s.p - 1) * s.v; },
        [](const Shape&, int) { return 1; },
        ButForTheLastStage([](const Shape&, int) { return 1; })}},
  };
}

}  // namespace

std::string ToString(const Shape& shape) {
  return absl::StrCat("P=", shape.p, " V=", shape.v, " M=", shape.m,
                      " K=", shape.k, " tied=", shape.tied);
}

const Figures* FindFigures(absl::string_view kind) {
  static const auto* const table = new auto(MakeTable());
  const auto found = table->find(std::string(kind));
  return found == table->end() ? nullptr : &found->second;
}

double LeastBubble(absl::string_view kind, const Shape& shape) {
  const bool zero_bubble = kind == "zb-h1" || kind == "zb-h2";
  return zero_bubble ? OneForwardEach(shape) : 0;
}

}  // namespace stagecoach::schedule::testing
