#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/findings.h"
#include "job/hf_config.h"
#include "job/keys.h"
#include "job/parse.h"

namespace stagecoach::job {

absl::Status ResolveModel(ParsedSpec* parsed) {
  const std::string folder = parsed->spec.model.checkpoint;
  if (folder.empty()) return absl::OkStatus();
  Findings findings(*parsed);
  const absl::StatusOr<ModelSpec> described = LoadHfConfig(folder);
  if (!described.ok()) {
    for (const absl::string_view line :
         absl::StrSplit(described.status().message(), '\n')) {
      findings.Add("model.checkpoint", line);
    }
    return findings.ToStatus();
  }
  JobSpec resolved = parsed->spec;
  resolved.model = *described;
  resolved.model.checkpoint = folder;
  resolved.model.dropout = parsed->spec.model.dropout;
  for (const std::string& name : KeysOfTable("model")) {
    const Key& key = *FindKey(name);
    const std::string written = ValueText(key, parsed->spec);
    const std::string stored = ValueText(key, resolved);
    if (parsed->positions.count(name) == 0 || written == stored) continue;
    findings.Add(name,
                 absl::StrCat("is ", written, ", but ", folder,
                              "/config.json says ", stored, "; leave it out"));
  }
  if (findings.empty()) parsed->spec = resolved;
  return findings.ToStatus();
}

}  // namespace stagecoach::job
