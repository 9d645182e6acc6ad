#include "client/output/cluster_output.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/version.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {

std::string WorkerStateName(v1::WorkerState state) {
  const std::string name = v1::WorkerState_Name(state);
  if (name.empty()) return absl::StrCat("STATE_", static_cast<int>(state));
  return std::string(absl::StripPrefix(name, "WORKER_STATE_"));
}

Json WorkerListJson(const v1::ListWorkersResponse& response) {
  Json json;
  json["workers"] = Json::array();
  for (const v1::WorkerInfo& worker : response.workers()) {
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
    json["workers"].push_back(std::move(entry));
  }
  Json& refused = json["refused_messages"];
  refused["old_term"] = response.refused().old_term();
  refused["other_epoch"] = response.refused().other_epoch();
  refused["other_incarnation"] = response.refused().other_incarnation();
  refused["no_session"] = response.refused().no_session();
  return json;
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
