#include "client/output/cluster_output.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/version.h"
#include "client/output/edge_output.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {

std::string WorkerStateName(v1::WorkerState state) {
  const std::string name = v1::WorkerState_Name(state);
  if (name.empty()) return absl::StrCat("STATE_", static_cast<int>(state));
  return std::string(absl::StripPrefix(name, "WORKER_STATE_"));
}

namespace {

Json EntryOf(const v1::WorkerInfo& worker) {
  Json entry;
  entry["id"] = worker.id();
  entry["state"] = WorkerStateName(worker.state());
  entry["reason"] = worker.reason();
  // As text: not every reader of JSON keeps 64 bits.
  entry["incarnation"] = absl::StrFormat("%016x", worker.incarnation());
  entry["host"] = worker.host();
  entry["process_id"] = worker.process_id();
  entry["device"] = worker.device();
  entry["version"] = worker.version();
  entry["torch_version"] = worker.torch_version();
  entry["job_id"] =
      worker.job_id().empty() ? Json(nullptr) : Json(worker.job_id());
  entry["stages"] = NumbersJson(worker.stages());
  entry["seconds_since_heartbeat"] = worker.seconds_since_heartbeat();
  return entry;
}

void AddLine(absl::string_view name, absl::string_view value,
             std::string* text) {
  if (value.empty()) return;
  absl::StrAppend(text, absl::StrFormat("%-10s", name), value, "\n");
}

// One below the other, the name before the first.
void AddLines(const std::string& name, const std::vector<std::string>& values,
              std::string* text) {
  for (size_t i = 0; i < values.size(); ++i) {
    AddLine(i == 0 ? name : "", values[i], text);
  }
}

}  // namespace

Json WorkerListJson(const v1::ListWorkersResponse& response) {
  Json json;
  json["workers"] = Json::array();
  for (const v1::WorkerInfo& worker : response.workers()) {
    json["workers"].push_back(EntryOf(worker));
  }
  Json& refused = json["refused_messages"];
  refused["old_term"] = response.refused().old_term();
  refused["other_epoch"] = response.refused().other_epoch();
  refused["other_incarnation"] = response.refused().other_incarnation();
  refused["no_session"] = response.refused().no_session();
  return json;
}

Json WorkerJson(const v1::WorkerInfo& worker, const v1::Job* job) {
  Json json = EntryOf(worker);
  json["paths"] = Json::array();
  for (const v1::WorkerPath& path : worker.paths()) {
    Json entry;
    entry["transport"] = path.transport();
    entry["available"] = path.obstacle().empty();
    entry["reason"] = path.obstacle();
    json["paths"].push_back(std::move(entry));
  }
  json["edges"] = Json::array();
  if (job == nullptr) return json;
  for (const std::string& edge : EdgesOfWorker(*job, worker.id())) {
    json["edges"].push_back(EdgeJson(*job, edge));
  }
  return json;
}

std::string WorkerText(const v1::WorkerInfo& worker, const v1::Job* job) {
  std::string text;
  AddLine("id", worker.id(), &text);
  AddLine("state", WorkerStateName(worker.state()), &text);
  AddLine("reason", worker.reason(), &text);
  AddLine("device", worker.device(), &text);
  AddLine("host", worker.host(), &text);
  AddLine("pid", absl::StrCat(worker.process_id()), &text);
  AddLine("version", worker.version(), &text);
  AddLine("torch", worker.torch_version(), &text);
  AddLine("job", worker.job_id(), &text);
  AddLine("stages", JoinNumbers(worker.stages()), &text);
  AddLine("heartbeat", FormatSeconds(worker.seconds_since_heartbeat()), &text);
  std::vector<std::string> paths;
  for (const v1::WorkerPath& path : worker.paths()) {
    paths.push_back(
        path.obstacle().empty()
            ? path.transport()
            : absl::StrCat(path.transport(), ": not here: ", path.obstacle()));
  }
  AddLines("paths", paths, &text);
  if (job != nullptr) {
    AddLines("edges", EdgesOfWorker(*job, worker.id()), &text);
  }
  return text;
}

std::string WorkerListText(const v1::ListWorkersResponse& response) {
  if (response.workers().empty()) return "no workers\n";
  Table table({Left("id"), Left("state"), Left("device"), Left("host"),
               Right("pid"), Left("job"), Left("stages"), Right("heartbeat"),
               Left("version"), Left("reason")});
  for (const v1::WorkerInfo& worker : response.workers()) {
    table.AddRow({worker.id(), WorkerStateName(worker.state()), worker.device(),
                  worker.host(), absl::StrCat(worker.process_id()),
                  worker.job_id(), JoinNumbers(worker.stages()),
                  FormatSeconds(worker.seconds_since_heartbeat()),
                  worker.version(), worker.reason()});
  }
  return table.Render();
}

Json VersionJson(const v1::GetCoordinatorResponse* coordinator) {
  Json json;
  json["version"] = std::string(kVersion);
  json["protocol"] = kProtocolVersion;
  json["coordinator"] = nullptr;
  if (coordinator != nullptr) {
    Json entry;
    entry["version"] = coordinator->version();
    entry["protocol"] = coordinator->protocol();
    entry["term"] = coordinator->term();
    json["coordinator"] = std::move(entry);
  }
  return json;
}

std::string VersionText(const v1::GetCoordinatorResponse* coordinator) {
  std::string text = absl::StrCat("stagecoach ", kVersion, " (protocol ",
                                  kProtocolVersion, ")\n");
  if (coordinator != nullptr) {
    absl::StrAppend(&text, "coordinator ", coordinator->version(),
                    " (protocol ", coordinator->protocol(), ")\n");
  }
  return text;
}

}  // namespace stagecoach::client
