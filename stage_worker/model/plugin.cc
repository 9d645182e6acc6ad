#include "stage_worker/model/plugin.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "stage_worker/model/adapted_stage.h"
#include "stagecoach/plugin.h"

namespace stagecoach::worker {
namespace {

absl::StatusOr<const plugin::Library*> Load(const std::string& path) {
  // Never closed: its code may be behind any tensor's graph.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("cannot load model.path: ", dlerror()));
  }
  using Entry = const plugin::Library* (*)();
  const auto entry =
      reinterpret_cast<Entry>(dlsym(handle, "stagecoach_plugin"));
  const plugin::Library* const library = entry == nullptr ? nullptr : entry();
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " is no plugin: it has no STAGECOACH_PLUGIN of "
                     "stagecoach/plugin.h"));
  }
  if (library->interface_version != plugin::kInterfaceVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " was built for version ", library->interface_version,
        " of stagecoach/plugin.h, this worker has version ",
        plugin::kInterfaceVersion, "; build it again"));
  }
  if (absl::string_view(library->torch_version) != TORCH_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was built for libtorch ", library->torch_version,
                     ", this worker has ", TORCH_VERSION, "; build it again"));
  }
  return library;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageModel>> NewPluginStage(
    const job::JobSpec& spec, const StageAssignment& stage) {
  SC_ASSIGN_OR_RETURN(const plugin::Library* const library,
                      Load(spec.model.path));
  return AdaptStage(spec, stage, library->new_stage);
}

}  // namespace stagecoach::worker
