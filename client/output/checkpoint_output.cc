#include "client/output/checkpoint_output.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {
namespace {

using checkpoint::FoundCheckpoint;

Json EntryOf(const FoundCheckpoint& checkpoint) {
  const bool sound = checkpoint.manifest.ok();
  Json entry;
  entry["step"] = checkpoint.step;
  entry["path"] = checkpoint.path;
  entry["sound"] = sound;
  entry["job_id"] = sound ? Json(checkpoint.manifest->job_id) : Json(nullptr);
  entry["samples"] = sound ? Json(checkpoint.manifest->samples) : Json(nullptr);
  entry["bytes"] = sound ? Json(checkpoint.manifest->bytes()) : Json(nullptr);
  entry["message"] =
      sound ? Json(nullptr)
            : Json(std::string(checkpoint.manifest.status().message()));
  return entry;
}

}  // namespace

Json CheckpointListJson(const std::vector<FoundCheckpoint>& checkpoints) {
  Json json;
  json["checkpoints"] = Json::array();
  for (const FoundCheckpoint& checkpoint : checkpoints) {
    json["checkpoints"].push_back(EntryOf(checkpoint));
  }
  return json;
}

std::string CheckpointListText(const std::vector<FoundCheckpoint>& checkpoints,
                               const std::string& sound) {
  if (checkpoints.empty()) return "no checkpoints\n";
  Table table(
      {Right("step"), Right("size"), Left("job"), Left("state"), Left("path")});
  for (const FoundCheckpoint& checkpoint : checkpoints) {
    if (checkpoint.manifest.ok()) {
      table.AddRow({FormatCount(checkpoint.step),
                    FormatByteSize(checkpoint.manifest->bytes()),
                    checkpoint.manifest->job_id, sound, checkpoint.path});
    } else {
      table.AddRow(
          {FormatCount(checkpoint.step), "", "", "damaged", checkpoint.path});
    }
  }
  std::string text = table.Render();
  for (const FoundCheckpoint& checkpoint : checkpoints) {
    if (checkpoint.manifest.ok()) continue;
    absl::StrAppend(&text, checkpoint.manifest.status().message(), "\n");
  }
  return text;
}

Json ExportJson(const checkpoint::Exported& exported,
                const std::string& folder) {
  Json json;
  json["folder"] = folder;
  json["step"] = exported.manifest.step;
  json["tensors"] = exported.tensors;
  json["bytes"] = exported.bytes;
  json["files"] = exported.files;
  return json;
}

std::string ExportText(const checkpoint::Exported& exported,
                       const std::string& folder) {
  return absl::StrCat("step ", exported.manifest.step, ", ",
                      Plural(exported.tensors, "tensor"), ", ",
                      FormatByteSize(exported.bytes), " to ", folder, "\n");
}

}  // namespace stagecoach::client
