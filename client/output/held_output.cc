#include "client/output/held_output.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/memory_category.h"
#include "client/output/memory_output.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1e3;

int64_t HeldBytesOf(const v1::WorkerMemory& worker) {
  int64_t bytes = 0;
  for (const v1::HeldBytes& held : worker.held()) bytes += held.bytes();
  return bytes;
}

int64_t CurrentOf(const v1::WorkerMemory& worker, MemoryCategory category) {
  for (const v1::CategoryBytes& entry : worker.categories()) {
    if (entry.category() == MemoryCategoryName(category)) {
      return entry.bytes().current();
    }
  }
  return 0;
}

int64_t PeakOf(const v1::WorkerMemory& worker, MemoryCategory category) {
  for (const v1::CategoryBytes& entry : worker.categories()) {
    if (entry.category() == MemoryCategoryName(category)) {
      return entry.bytes().peak();
    }
  }
  return 0;
}

Json WorkerHeldJson(const v1::WorkerMemory& worker) {
  Json json;
  json["worker"] = worker.worker();
  json["step"] = worker.step();
  json["activation_bytes"] = CurrentOf(worker, MemoryCategory::kActivation);
  json["held_bytes"] = HeldBytesOf(worker);
  AddAnswerTime(worker, &json);
  json["held"] = Json::array();
  for (const v1::HeldBytes& held : worker.held()) {
    Json entry;
    entry["stage"] = held.stage();
    entry["microbatch"] = held.microbatch();
    entry["op"] = held.op();
    entry["tensors"] = held.tensors();
    entry["bytes"] = held.bytes();
    json["held"].push_back(std::move(entry));
  }
  return json;
}

Json SilentJson(const v1::GetMemoryStatsResponse& response) {
  Json silent = Json::array();
  for (const std::string& worker : response.silent_workers()) {
    silent.push_back(worker);
  }
  return silent;
}

// ---- groups -----------------------------------------------------------------

const char* NameOf(MemoryGroup group) {
  switch (group) {
    case MemoryGroup::kCategory:
      return "category";
    case MemoryGroup::kStage:
      return "stage";
    case MemoryGroup::kMicrobatch:
      return "microbatch";
    case MemoryGroup::kOp:
      return "op";
  }
  return "";
}

using Group = std::pair<std::string, int64_t>;

// The groups of one worker, largest first.
std::vector<Group> GroupsOf(const v1::WorkerMemory& worker, MemoryGroup group) {
  std::map<std::string, int64_t> bytes;
  if (group == MemoryGroup::kCategory) {
    for (const v1::CategoryBytes& category : worker.categories()) {
      bytes[category.category()] = category.bytes().current();
    }
  } else if (group == MemoryGroup::kStage) {
    for (const v1::StageMemory& stage : worker.stages()) {
      bytes[absl::StrCat(stage.stage())] = stage.activation_bytes();
    }
  } else {
    for (const v1::HeldBytes& held : worker.held()) {
      bytes[group == MemoryGroup::kOp ? held.op()
                                      : absl::StrCat(held.microbatch())] +=
          held.bytes();
    }
  }
  std::vector<Group> groups(bytes.begin(), bytes.end());
  std::stable_sort(
      groups.begin(), groups.end(),
      [](const Group& a, const Group& b) { return a.second > b.second; });
  return groups;
}

// ---- words ------------------------------------------------------------------

const char* MeaningOf(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameter:
      return "weights of the stages it holds";
    case MemoryCategory::kGradient:
      return "one gradient for each weight, added up over the step";
    case MemoryCategory::kOptimizer:
      return "the optimizer's averages";
    case MemoryCategory::kActivation:
      return "what ops keep of microbatches in flight, and outputs not sent "
             "yet";
    case MemoryCategory::kWireSend:
      return "copies that wait to be sent";
    case MemoryCategory::kWireReceive:
      return "slots that peers write into, reserved whole";
    case MemoryCategory::kWorkspace:
      return "scratch memory of updates and norms";
    case MemoryCategory::kOther:
      return "copies for checkpoints, and what has no tag";
  }
  return "";
}

const v1::JobWorker* FindWorker(const v1::Job& job, const std::string& name) {
  for (const v1::JobWorker& worker : job.workers()) {
    if (worker.worker() == name) return &worker;
  }
  return nullptr;
}

std::string PeakSentence(const v1::WorkerMemory& worker,
                         const v1::JobWorker* part) {
  std::string text = absl::StrCat(
      worker.worker(), ": ", FormatByteSize(worker.allocated_bytes().current()),
      " allocated now, ", FormatByteSize(worker.allocated_bytes().peak()),
      " at most");
  if (part != nullptr && part->has_predicted()) {
    const int64_t low = part->predicted().low().total();
    const int64_t high = part->predicted().high().total();
    absl::StrAppend(&text,
                    "; predicted before the first step: ", FormatByteSize(low),
                    " to ", FormatByteSize(high));
  }
  return text + "\n";
}

std::string CategoryTable(const v1::WorkerMemory& worker) {
  Table table({Left(""), Right("now"), Right("at most"), Left("what it is")});
  for (int i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (PeakOf(worker, category) == 0) continue;
    table.AddRow({MemoryCategoryName(category),
                  FormatByteSize(CurrentOf(worker, category)),
                  FormatByteSize(PeakOf(worker, category)),
                  MeaningOf(category)});
  }
  return table.Render();
}

std::string RetainedSentences(const v1::WorkerMemory& worker) {
  std::string text;
  for (const v1::StageMemory& stage : worker.stages()) {
    for (const v1::RetainedBytes& retained : stage.retained_by()) {
      const bool policy = retained.op() == "policy";
      absl::StrAppend(
          &text, "  stage ", stage.stage(), ": ",
          FormatByteSize(retained.bytes()),
          " of outputs stayed after their acknowledgement, ",
          policy ? "by pipeline.release = \"never\"; \"ack\" gives them back"
                 : absl::StrCat("kept by ", retained.op(),
                                " for its backward: end the stage with an op "
                                "that does not save its result, or move the "
                                "split"),
          "\n");
    }
  }
  const v1::PendingAcknowledgement& pending = worker.pending_acknowledgement();
  if (pending.transfers() > 0) {
    absl::StrAppend(&text, "  ", pending.transfers(), " transfers of ",
                    FormatByteSize(pending.bytes()),
                    " wait for their acknowledgement, the oldest since ",
                    FormatSeconds(pending.oldest_seconds()),
                    "; pipeline.send_budget bounds them\n");
  }
  return text;
}

}  // namespace

Json HeldJson(const v1::GetMemoryStatsResponse& response) {
  Json json;
  json["job_id"] = response.job_id();
  json["workers"] = Json::array();
  for (const v1::WorkerMemory& worker : response.workers()) {
    json["workers"].push_back(WorkerHeldJson(worker));
  }
  json["silent_workers"] = SilentJson(response);
  return json;
}

std::string HeldText(const v1::GetMemoryStatsResponse& response) {
  Table table({Left("worker"), Right("stage"), Right("microbatch"), Left("op"),
               Right("tensors"), Right("bytes")});
  int64_t total = 0;
  for (const v1::WorkerMemory& worker : response.workers()) {
    total += HeldBytesOf(worker);
    for (const v1::HeldBytes& held : worker.held()) {
      table.AddRow({worker.worker(), absl::StrCat(held.stage()),
                    absl::StrCat(held.microbatch()), held.op(),
                    FormatCount(held.tensors()), FormatByteSize(held.bytes())});
    }
  }
  table.AddTotal({"total", "", "", "", "", FormatByteSize(total)});
  std::string text = table.Render();
  for (const std::string& worker : response.silent_workers()) {
    absl::StrAppend(&text, worker, " did not answer in time\n");
  }
  return text;
}

bool NeedsHeld(MemoryGroup group) {
  return group == MemoryGroup::kMicrobatch || group == MemoryGroup::kOp;
}

Json MemoryGroupsJson(const v1::GetMemoryStatsResponse& response,
                      MemoryGroup group) {
  Json list = Json::array();
  for (const v1::WorkerMemory& worker : response.workers()) {
    for (const auto& [name, bytes] : GroupsOf(worker, group)) {
      Json entry;
      entry["worker"] = worker.worker();
      entry[NameOf(group)] = name;
      entry["bytes"] = bytes;
      list.push_back(std::move(entry));
    }
  }
  return list;
}

std::string MemoryGroupsText(const v1::GetMemoryStatsResponse& response,
                             MemoryGroup group) {
  Table table({Left("worker"), Left(NameOf(group)), Right("bytes")});
  int64_t total = 0;
  for (const v1::WorkerMemory& worker : response.workers()) {
    for (const auto& [name, bytes] : GroupsOf(worker, group)) {
      total += bytes;
      table.AddRow({worker.worker(), name, FormatByteSize(bytes)});
    }
  }
  table.AddTotal({"total", "", FormatByteSize(total)});
  return table.Render();
}

Json SnapshotJson(const v1::GetMemoryStatsResponse& response) {
  Json json;
  json["displayTimeUnit"] = "ms";
  json["traceEvents"] = Json::array();
  for (int i = 0; i < response.workers_size(); ++i) {
    const v1::WorkerMemory& worker = response.workers(i);
    Json name;
    name["name"] = "process_name";
    name["ph"] = "M";
    name["pid"] = i;
    name["args"]["name"] = worker.worker();
    json["traceEvents"].push_back(std::move(name));
    for (const v1::MemoryPoint& point : worker.points()) {
      Json event;
      event["name"] = "memory";
      event["ph"] = "C";
      event["pid"] = i;
      event["ts"] =
          static_cast<double>(point.nanoseconds()) / kNanosecondsPerMicrosecond;
      for (int c = 0; c < point.categories_size() && c < kMemoryCategories;
           ++c) {
        event["args"][MemoryCategoryName(static_cast<MemoryCategory>(c))] =
            point.categories(c);
      }
      json["traceEvents"].push_back(std::move(event));
    }
  }
  json["snapshot"] = MemoryStatsJson(response);
  for (int i = 0; i < response.workers_size(); ++i) {
    const v1::WorkerMemory& worker = response.workers(i);
    Json& entry = json["snapshot"]["workers"][static_cast<size_t>(i)];
    entry["held"] = WorkerHeldJson(worker)["held"];
    entry["actions"] = Json::array();
    for (const v1::MemoryPoint& point : worker.points()) {
      Json action;
      action["step"] = point.step();
      action["action"] = point.action();
      action["nanoseconds"] = point.nanoseconds();
      entry["actions"].push_back(std::move(action));
    }
  }
  return json;
}

std::string ExplainText(const v1::GetMemoryStatsResponse& response,
                        const v1::Job& job) {
  std::string text = absl::StrCat(
      "job ", response.job_id(),
      ": every byte of a worker's tensors is in one category; \"now\" adds up "
      "to what is allocated, the peaks are of different moments\n");
  for (const v1::WorkerMemory& worker : response.workers()) {
    absl::StrAppend(&text, "\n",
                    PeakSentence(worker, FindWorker(job, worker.worker())),
                    CategoryTable(worker), RetainedSentences(worker));
  }
  absl::StrAppend(
      &text,
      "\nIf it is too much: fewer microbatches in flight (pipeline.schedule), "
      "a "
      "smaller pipeline.send_budget or training.microbatch_size, or more "
      "pipeline.workers; `stagecoach plan` says what each would take, and with "
      "memory.limit set a plan that cannot fit is refused with one that "
      "can.\n");
  return text;
}

}  // namespace stagecoach::client
