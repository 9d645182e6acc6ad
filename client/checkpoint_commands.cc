#include "client/checkpoint_commands.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/output/checkpoint_output.h"
#include "client/output/json.h"
#include "stage_worker/checkpoint/export.h"
#include "stage_worker/checkpoint/folders.h"

namespace stagecoach::client {
namespace {

using checkpoint::FoundCheckpoint;

absl::Status CheckFolder(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no folder ", path));
}

// ---- list -------------------------------------------------------------------

absl::StatusOr<int> List(const std::string& directory, Context* context) {
  SC_RETURN_IF_ERROR(CheckFolder(directory));
  SC_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found,
                      checkpoint::ListCheckpoints(directory));
  *context->out << (context->json() ? Dump(CheckpointListJson(found))
                                    : CheckpointListText(found, "complete"))
                << std::flush;
  return kExitDone;
}

void AddList(CLI::App* group, Context* context) {
  CLI::App* verb =
      AddVerb(group, "list", "Checkpoints of a directory, newest first",
              {"stagecoach checkpoint list checkpoints",
               "stagecoach checkpoint list checkpoints -o json"});
  auto directory = std::make_shared<std::string>();
  verb->add_option("DIR", *directory, "The spec's checkpoint.directory")
      ->required();
  SetAction(verb, context,
            [directory, context] { return List(*directory, context); });
}

// ---- verify -----------------------------------------------------------------

// `path` is one checkpoint, or a directory of them.
absl::StatusOr<std::vector<FoundCheckpoint>> VerifyAll(
    const std::string& path) {
  SC_ASSIGN_OR_RETURN(std::vector<FoundCheckpoint> found,
                      checkpoint::ListCheckpoints(path));
  if (found.empty()) {
    FoundCheckpoint one;
    one.path = path;
    one.manifest = checkpoint::VerifyCheckpoint(path);
    // Neither a checkpoint nor a directory of them.
    if (absl::IsNotFound(one.manifest.status())) return one.manifest.status();
    if (one.manifest.ok()) one.step = one.manifest->step;
    found.push_back(std::move(one));
    return found;
  }
  for (FoundCheckpoint& checkpoint : found) {
    checkpoint.manifest = checkpoint::VerifyCheckpoint(checkpoint.path);
  }
  return found;
}

absl::StatusOr<int> Verify(const std::string& path, Context* context) {
  SC_RETURN_IF_ERROR(CheckFolder(path));
  SC_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found,
                      VerifyAll(path));
  int64_t damaged = 0;
  for (const FoundCheckpoint& checkpoint : found) {
    if (!checkpoint.manifest.ok()) ++damaged;
  }
  const int exit_code = damaged == 0 ? kExitDone : kExitInternal;
  const std::string message =
      absl::StrCat(damaged, " of ", found.size(), " damaged");
  if (context->json()) {
    Json document = CheckpointListJson(found);
    if (damaged > 0) AddError(exit_code, message, &document);
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << CheckpointListText(found, "sound") << std::flush;
  }
  if (damaged > 0) *context->error << "stagecoach: " << message << "\n";
  return exit_code;
}

void AddVerify(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "verify",
      "Read every byte of a checkpoint, or of all of a directory, and compare "
      "it with its manifest; damaged: exit code 1",
      {"stagecoach checkpoint verify checkpoints",
       "stagecoach checkpoint verify checkpoints/step-00000050 -o json"});
  auto path = std::make_shared<std::string>();
  verb->add_option("PATH", *path, "A checkpoint, or a directory of them")
      ->required();
  SetAction(verb, context, [path, context] { return Verify(*path, context); });
}

// ---- export -----------------------------------------------------------------

struct ExportArguments {
  std::string path;
  std::string folder;
  std::string shard_size;  // empty: the default
};

// A directory stands for its newest sound checkpoint.
absl::StatusOr<std::string> CheckpointOf(const std::string& path,
                                         Context* context) {
  SC_RETURN_IF_ERROR(CheckFolder(path));
  SC_ASSIGN_OR_RETURN(const checkpoint::Choice choice,
                      checkpoint::ChooseCheckpoint(path));
  for (const std::string& warning : choice.warnings) {
    *context->error << "stagecoach: " << warning << "; taking the one before\n";
  }
  return choice.checkpoint.has_value() ? choice.checkpoint->path : path;
}

absl::StatusOr<int> Export(const ExportArguments& arguments, Context* context) {
  checkpoint::ExportOptions options;
  if (!arguments.shard_size.empty()) {
    SC_ASSIGN_OR_RETURN(options.shard_bytes,
                        ParseByteSize(arguments.shard_size));
    if (options.shard_bytes == 0) {
      return absl::InvalidArgumentError("--shard-size must be more than 0");
    }
  }
  SC_ASSIGN_OR_RETURN(const std::string path,
                      CheckpointOf(arguments.path, context));
  SC_ASSIGN_OR_RETURN(
      const checkpoint::Exported exported,
      checkpoint::ExportCheckpoint(path, arguments.folder, options));
  *context->out << (context->json()
                        ? Dump(ExportJson(exported, arguments.folder))
                        : ExportText(exported, arguments.folder))
                << std::flush;
  return kExitDone;
}

void AddExport(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "export",
      "Write a checkpoint's model as a plain Hugging Face folder",
      {"stagecoach checkpoint export checkpoints/step-00000050 my-model",
       "stagecoach checkpoint export checkpoints my-model --shard-size 1GiB"});
  auto arguments = std::make_shared<ExportArguments>();
  verb->add_option("CHECKPOINT", arguments->path,
                   "A checkpoint, or a directory: its newest sound one")
      ->required();
  verb->add_option("OUT", arguments->folder,
                   "The folder to write; must not be there, or be empty")
      ->required();
  verb->add_option("--shard-size", arguments->shard_size,
                   "Most bytes of one file of weights, as in 2GiB (default: "
                   "5,000,000,000)");
  SetAction(verb, context,
            [arguments, context] { return Export(*arguments, context); });
}

}  // namespace

void AddCheckpointCommands(CLI::App* app, Context* context) {
  CLI::App* group =
      AddGroup(app, "checkpoint", "Stored training states, as folders");
  AddList(group, context);
  AddVerify(group, context);
  AddExport(group, context);
}

}  // namespace stagecoach::client
