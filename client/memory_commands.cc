#include "client/memory_commands.h"

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/job_client.h"
#include "client/output/json.h"
#include "client/output/memory_output.h"

namespace stagecoach::client {
namespace {

absl::StatusOr<int> Stats(const std::string& job_id, Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::GetMemoryStatsResponse response,
                      JobClient(context->endpoint).MemoryStats(job_id));
  *context->out << (context->json() ? Dump(MemoryStatsJson(response))
                                    : MemoryStatsText(response))
                << std::flush;
  return kExitDone;
}

}  // namespace

void AddMemoryCommands(CLI::App* app, Context* context) {
  CLI::App* group = AddGroup(app, "memory", "Where a job's bytes are");
  CLI::App* verb = AddVerb(
      group, "stats",
      "Bytes by worker, category and stage; what was released and retained",
      {"stagecoach memory stats", "stagecoach memory stats JOB -o json"});
  auto job_id = std::make_shared<std::string>();
  verb->add_option("JOB", *job_id,
                   "Id of the job (default: the running one, or the last)");
  SetAction(verb, context,
            [job_id, context] { return Stats(*job_id, context); });
}

}  // namespace stagecoach::client
