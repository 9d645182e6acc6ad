#include "schedule/formats/diff.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stagecoach::schedule {
namespace {

class HeaderDiff {
 public:
  template <typename T>
  void Compare(absl::string_view what, const T& left, const T& right) {
    if (left == right) return;
    lines_.push_back(absl::StrCat(what, ": ", left, " and ", right));
  }
  void Only(absl::string_view what, const char* side) {
    lines_.push_back(absl::StrCat(what, ": only ", side));
  }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void ComparePlacement(const Schedule& left, const Schedule& right,
                      HeaderDiff* diff) {
  const size_t count = std::min(left.placement.size(), right.placement.size());
  for (size_t s = 0; s < count; ++s) {
    diff->Compare(absl::StrCat("worker of stage ", s),
                  left.placement[s].value(), right.placement[s].value());
  }
}

// Both ascend by edge.
void CompareEdges(const Schedule& left, const Schedule& right,
                  HeaderDiff* diff) {
  auto l = left.edges.begin();
  auto r = right.edges.begin();
  while (l != left.edges.end() || r != right.edges.end()) {
    if (r == right.edges.end() ||
        (l != left.edges.end() && l->edge < r->edge)) {
      diff->Only(absl::StrCat("edge ", ToString(l++->edge)), "on the left");
    } else if (l == left.edges.end() || r->edge < l->edge) {
      diff->Only(absl::StrCat("edge ", ToString(r++->edge)), "on the right");
    } else {
      const std::string edge = absl::StrCat("edge ", ToString(l->edge));
      diff->Compare(absl::StrCat(edge, " receive_depth"), l->receive_depth,
                    r->receive_depth);
      diff->Compare(absl::StrCat(edge, " pool_slots"), l->pool_slots,
                    r->pool_slots);
      ++l;
      ++r;
    }
  }
}

void CompareLists(const Schedule& left, const Schedule& right,
                  ScheduleDifference* difference) {
  static const auto* const kNoActions = new std::vector<Action>;
  const size_t count = std::max(left.actions.size(), right.actions.size());
  for (size_t w = 0; w < count; ++w) {
    const auto& l = w < left.actions.size() ? left.actions[w] : *kNoActions;
    const auto& r = w < right.actions.size() ? right.actions[w] : *kNoActions;
    const auto [at_left, at_right] =
        std::mismatch(l.begin(), l.end(), r.begin(), r.end());
    if (at_left == l.end() && at_right == r.end()) continue;
    ListDifference& list = difference->lists.emplace_back();
    list.worker = WorkerIndex(static_cast<int>(w));
    list.position = static_cast<size_t>(at_left - l.begin());
    if (at_left != l.end()) list.left = ToString(*at_left);
    if (at_right != r.end()) list.right = ToString(*at_right);
  }
}

}  // namespace

ScheduleDifference Diff(const Schedule& left, const Schedule& right) {
  HeaderDiff header;
  header.Compare("kind", left.kind, right.kind);
  header.Compare("workers", left.workers, right.workers);
  header.Compare("stages_per_worker", left.stages_per_worker,
                 right.stages_per_worker);
  header.Compare("microbatches", left.microbatches, right.microbatches);
  header.Compare("send_budget", left.send_budget, right.send_budget);
  ComparePlacement(left, right, &header);
  CompareEdges(left, right, &header);
  ScheduleDifference difference;
  difference.header = header.Take();
  CompareLists(left, right, &difference);
  return difference;
}

std::string ToText(const ScheduleDifference& difference) {
  std::string text;
  for (const std::string& line : difference.header) {
    absl::StrAppend(&text, line, "\n");
  }
  const auto shown = [](const std::string& action) {
    return action.empty() ? std::string("nothing more") : action;
  };
  for (const ListDifference& list : difference.lists) {
    absl::StrAppend(&text, "w", list.worker.value(), " action ", list.position,
                    ": ", shown(list.left), " and ", shown(list.right), "\n");
  }
  return text;
}

}  // namespace stagecoach::schedule
