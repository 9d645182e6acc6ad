#include "stage_worker/checkpoint/stage_files.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "stage_worker/checkpoint/durable_file.h"
#include "stage_worker/checkpoint/folders.h"
#include "stage_worker/checkpoint/safetensors_writer.h"

namespace stagecoach::checkpoint {
namespace {

using worker::StageState;
using worker::StateTensor;

constexpr char kWeights[] = "model-";
constexpr char kOptimizer[] = "optimizer-";

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot make the folder ", folder));
}

absl::StatusOr<ManifestFile> WriteTensors(
    const std::string& folder, const std::string& name,
    const std::vector<StateTensor>& tensors) {
  std::vector<TensorToWrite> to_write;
  to_write.reserve(tensors.size());
  for (const StateTensor& tensor : tensors) {
    to_write.push_back({tensor.name, tensor.descriptor, tensor.data.get()});
  }
  // Without "format" transformers does not take a file for PyTorch's.
  SC_ASSIGN_OR_RETURN(
      FileDigest digest,
      WriteSafetensors(absl::StrCat(folder, "/", name), std::move(to_write),
                       {{"format", "pt"}}));
  return ManifestFile{name, digest.bytes, std::move(digest.sha256)};
}

// As Hugging Face numbers shards: from 1.
std::string NameOf(const char* kind, const StageState& state, int stages) {
  return absl::StrFormat("%s%05d-of-%05d.safetensors", kind,
                         state.stage.stage.value() + 1, stages);
}

absl::Status ReadTensor(const SafetensorsFolder& folder,
                        const std::string& name,
                        const TensorDescriptor& descriptor, void* data) {
  SC_ASSIGN_OR_RETURN(const StoredTensor tensor,
                      folder.Find(name, descriptor.shape));
  if (descriptor.dtype == DType::kFloat32) {
    return Annotate(CopyAsFloat32(tensor, static_cast<float*>(data)),
                    absl::StrCat("tensor ", name, " in ", folder.FileOf(name)));
  }
  if (tensor.descriptor.dtype != descriptor.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", name, " in ", folder.FileOf(name), " is ",
        tensor.descriptor.ToString(), ", not ", descriptor.ToString()));
  }
  std::memcpy(data, tensor.data, descriptor.bytes());
  return absl::OkStatus();
}

worker::StateReader ReaderOf(const SafetensorsFolder& folder) {
  return [&folder](const std::string& name, const TensorDescriptor& descriptor,
                   void* data) {
    return ReadTensor(folder, name, descriptor, data);
  };
}

absl::StatusOr<std::unique_ptr<SafetensorsFolder>> OpenKind(
    const std::string& path, const Manifest& manifest, const char* kind) {
  std::vector<std::string> names;
  for (const ManifestFile& file : manifest.files) {
    if (absl::StartsWith(file.name, kind) &&
        absl::EndsWith(file.name, ".safetensors")) {
      names.push_back(file.name);
    }
  }
  return SafetensorsFolder::OpenFiles(path, names);
}

}  // namespace

absl::StatusOr<std::vector<ManifestFile>> WriteStages(
    const std::string& folder, const std::vector<StageState>& states,
    int stages, const std::atomic<bool>& cancelled) {
  SC_RETURN_IF_ERROR(MakeFolder(folder));
  std::vector<ManifestFile> files;
  for (const StageState& state : states) {
    for (const char* kind : {kWeights, kOptimizer}) {
      if (cancelled) return absl::CancelledError("the job let go");
      const std::vector<StateTensor>& tensors =
          kind == kWeights ? state.parameters : state.optimizer;
      if (tensors.empty() && kind == kOptimizer) continue;
      SC_ASSIGN_OR_RETURN(
          ManifestFile file,
          WriteTensors(folder, NameOf(kind, state, stages), tensors));
      files.push_back(std::move(file));
    }
  }
  return files;
}

SavedState::SavedState(std::unique_ptr<SafetensorsFolder> weights,
                       std::unique_ptr<SafetensorsFolder> optimizer)
    : weights_(std::move(weights)), optimizer_(std::move(optimizer)) {}

absl::StatusOr<std::unique_ptr<SavedState>> SavedState::Open(
    const std::string& path) {
  SC_ASSIGN_OR_RETURN(const Manifest manifest, ReadCheckpoint(path));
  SC_ASSIGN_OR_RETURN(auto weights, OpenKind(path, manifest, kWeights));
  SC_ASSIGN_OR_RETURN(auto optimizer, OpenKind(path, manifest, kOptimizer));
  return std::unique_ptr<SavedState>(
      new SavedState(std::move(weights), std::move(optimizer)));
}

worker::StateReader SavedState::parameters() const {
  return ReaderOf(*weights_);
}

worker::StateReader SavedState::optimizer() const {
  return ReaderOf(*optimizer_);
}

absl::Status LoadState(const std::string& path, worker::StageEngine* engine) {
  SC_ASSIGN_OR_RETURN(const auto state, SavedState::Open(path));
  SC_RETURN_IF_ERROR(engine->ImportParameters(state->parameters()));
  return engine->ImportOptimizer(state->optimizer());
}

}  // namespace stagecoach::checkpoint
