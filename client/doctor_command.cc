#include "client/doctor_command.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/process.h"
#include "base/version.h"
#include "client/cluster_record.h"
#include "client/command_line.h"
#include "client/daemon_binary.h"
#include "client/exit_codes.h"
#include "client/finding.h"
#include "client/job_client.h"
#include "client/machine.h"
#include "client/output/json.h"
#include "client/program_checks.h"

namespace stagecoach::client {
namespace {

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "?";
}

Finding CheckCoordinator(const Context& context) {
  const absl::StatusOr<v1::GetCoordinatorResponse> answer =
      JobClient(context.endpoint).Coordinator();
  if (!answer.ok() &&
      (context.endpoint_given || absl::IsInvalidArgument(answer.status()))) {
    return {"coordinator", Verdict::kFail,
            absl::StrCat("none answers at ", context.endpoint),
            std::string(answer.status().message())};
  }
  if (!answer.ok()) {
    return {"coordinator", Verdict::kWarn,
            absl::StrCat("none answers at ", context.endpoint),
            "`stagecoach up` starts one; `run --local` needs none"};
  }
  std::string detail = absl::StrCat(context.endpoint, ", ", answer->version(),
                                    " (protocol ", answer->protocol(), ")");
  if (answer->protocol() == kProtocolVersion) {
    return {"coordinator", Verdict::kOk, std::move(detail), ""};
  }
  return {"coordinator", Verdict::kFail, std::move(detail),
          absl::StrCat("this command speaks protocol ", kProtocolVersion,
                       "; install the same version on both")};
}

std::vector<Finding> AllFindings(const Load& load, const Context& context) {
  const std::string folder = ExecutableFolder();
  std::vector<Finding> findings = {CheckProgram(CoordinatorBinary(), folder),
                                   CheckProgram(WorkerBinary(), folder)};
  const auto add = [&findings](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  add(CheckEngines(folder));
  add({CheckNccl()});
  add(JudgeMachine(LookAtMachine(ClusterFolder("")), load));
  add({CheckCoordinator(context)});
  return findings;
}

Json FindingsJson(const std::vector<Finding>& findings, bool ok) {
  Json json;
  json["ok"] = ok;
  json["checks"] = Json::array();
  for (const Finding& finding : findings) {
    Json entry;
    entry["check"] = finding.check;
    entry["result"] = VerdictName(finding.verdict);
    entry["detail"] = finding.detail;
    entry["remedy"] =
        finding.remedy.empty() ? Json(nullptr) : Json(finding.remedy);
    json["checks"].push_back(std::move(entry));
  }
  return json;
}

std::string FindingsText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-4s  %-22s  %s\n",
                          VerdictName(finding.verdict), finding.check,
                          finding.detail);
    if (!finding.remedy.empty()) {
      absl::StrAppendFormat(&text, "%30s%s\n", "-> ", finding.remedy);
    }
  }
  return text;
}

absl::StatusOr<int> Doctor(const Load& load, Context* context) {
  const std::vector<Finding> findings = AllFindings(load, *context);
  bool ok = true;
  for (const Finding& finding : findings) {
    ok = ok && finding.verdict != Verdict::kFail;
  }
  *context->out << (context->json() ? Dump(FindingsJson(findings, ok))
                                    : FindingsText(findings))
                << std::flush;
  return ok ? kExitDone : kExitInternal;
}

}  // namespace

void AddDoctorCommand(CLI::App* app, Context* context) {
  CLI::App* verb = AddVerb(
      app, "doctor",
      "Check programs, libraries and this machine; exit 0 if nothing fails",
      {"stagecoach doctor", "stagecoach doctor --workers 8 --threads 2",
       "stagecoach doctor -o json"});
  auto load = std::make_shared<Load>();
  verb->add_option("--workers", load->workers, "Workers that are to run here")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--threads", load->threads, "Threads of each of them")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  SetAction(verb, context, [load, context] { return Doctor(*load, context); });
}

}  // namespace stagecoach::client
