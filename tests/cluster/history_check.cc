#include "tests/cluster/history_check.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "absl/strings/str_split.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

// Where a job is in its life, as far as its events tell.
class JobModel {
 public:
  // "" or what is wrong with it.
  std::string Take(const json& event) {
    const std::string kind = event["event"];
    if (kind == "step") return TakeStep(event["step"]["step"]);
    if (kind == "placed") return TakePlaced(event["epoch"]);
    if (kind == "rewound") return TakeRewound(event["message"]);
    if (kind == "submitted") return Go("", "submitted");
    if (kind == "planning") return TakePlanning();
    if (kind == "planned") return Go("planning", "planned");
    if (kind == "running") return Go("placed", "running");
    if (kind == "succeeded") return Go("running", "succeeded");
    if (kind == "recovering") {
      if (at_ != "placed" && at_ != "running") return Illegal();
      at_ = "recovering";
      return "";
    }
    if (kind == "worker_released") return "";
    if (kind == "waiting" || kind == "replanned" ||
        kind == "memory_predicted" || kind == "rescheduled" ||
        kind == "reschedule_requested" || kind == "checkpoint_requested" ||
        kind == "checkpoint_stored" || kind == "checkpoint_failed") {
      return at_ == "succeeded" ? Illegal() : "";
    }
    return "no event of a job that succeeds";
  }
  const std::string& at() const { return at_; }
  int64_t steps() const { return steps_; }

 private:
  std::string Illegal() const { return "illegal while " + at_; }
  std::string Go(const std::string& from, const std::string& to) {
    if (at_ != from) return Illegal();
    at_ = to;
    return "";
  }
  // A coordinator that comes back plans again what has no workers yet.
  std::string TakePlanning() {
    if (at_ != "submitted" && at_ != "planning" && at_ != "planned") {
      return Illegal();
    }
    at_ = "planning";
    return "";
  }
  std::string TakeStep(int64_t step) {
    if (at_ != "running") return Illegal();
    if (step != steps_) return "step " + std::to_string(steps_) + " was due";
    ++steps_;
    return "";
  }
  std::string TakePlaced(int64_t epoch) {
    if (at_ != "planned" && at_ != "rewound") return Illegal();
    if (epoch <= epoch_) return "an old epoch";
    epoch_ = epoch;
    at_ = "placed";
    return "";
  }
  std::string TakeRewound(const std::string& message) {
    long long step = -1;
    if (at_ != "recovering" && at_ != "rewound") return Illegal();
    if (std::sscanf(message.c_str(), "goes on with step %lld", &step) != 1 ||
        step > steps_) {
      return "goes on with a step that was not reached";
    }
    steps_ = step;
    at_ = "rewound";
    return "";
  }

  std::string at_;  // the last kind that changed it
  int64_t steps_ = 0;
  int64_t epoch_ = 0;
};

}  // namespace

std::map<std::string, int> CheckHistory(const Cluster& cluster,
                                        const std::string& id, int64_t steps) {
  std::map<std::string, int> count;
  const CommandResult events = cluster.Command({"job", "events", id});
  EXPECT_EQ(events.exit_code, 0) << events.err;
  JobModel model;
  const std::vector<std::string> lines =
      absl::StrSplit(events.out, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("event")) continue;  // the end
    EXPECT_EQ(model.Take(event), "") << line;
    ++count[event["event"].get<std::string>()];
  }
  EXPECT_EQ(model.at(), "succeeded") << events.err;
  EXPECT_EQ(model.steps(), steps);
  return count;
}

}  // namespace stagecoach::testing
