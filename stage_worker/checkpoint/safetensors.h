#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor_descriptor.h"

namespace stagecoach::worker {
class MappedFile;
}  // namespace stagecoach::worker

// Reading safetensors, the file format of Hugging Face's weights:
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"name": {"dtype", "shape", "data_offsets"}, ...,
//             "__metadata__": {string: string}}, padded with spaces
//   data      the tensors' bytes, without gaps
//
// No file from outside can do more than be refused: each message names the
// file and, where there is one, the tensor. Tensors need not be aligned in the
// file, so read them with memcpy or CopyAsFloat32.
namespace stagecoach::checkpoint {

// One tensor's place in a mapped file, which must outlive it.
struct StoredTensor {
  TensorDescriptor descriptor;
  const uint8_t* data = nullptr;  // not aligned
};

struct SafetensorsHeader {
  struct Tensor {
    TensorDescriptor descriptor;
    uint64_t begin = 0;  // offset of its first byte in the file
  };
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// The header of a whole file's bytes, checked against their number. Errors
// (kInvalidArgument) do not name the file.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    absl::string_view file);

// One file, mapped into memory: opening reads its header alone. Whoever cuts
// the file short meanwhile ends this process (SIGBUS). Immutable, thread-safe.
class SafetensorsFile {
 public:
  // kNotFound: no such file. kInvalidArgument: it is no sound safetensors file.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::string& path);
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  // kNotFound names tensor and file.
  absl::StatusOr<StoredTensor> Find(const std::string& name) const;

 private:
  SafetensorsFile(std::string path, std::unique_ptr<worker::MappedFile> bytes,
                  SafetensorsHeader header);

  const std::string path_;
  const std::unique_ptr<worker::MappedFile> bytes_;
  const SafetensorsHeader header_;
};

// The weights of a Hugging Face folder: "model.safetensors" or, where there is
// none, the files that "model.safetensors.index.json" names, and no others.
// Immutable, thread-safe.
class SafetensorsFolder {
 public:
  // kNotFound: neither file is there, or one that the index names is not.
  // kInvalidArgument: the index or a file is not sound, or a file lacks a
  // tensor of the index, or holds one that is not in the index.
  static absl::StatusOr<std::unique_ptr<SafetensorsFolder>> Open(
      const std::string& folder);

  // All tensors of these files of the folder. kInvalidArgument for a tensor
  // that is in two of them; otherwise as above.
  static absl::StatusOr<std::unique_ptr<SafetensorsFolder>> OpenFiles(
      const std::string& folder, const std::vector<std::string>& files);

  bool Has(const std::string& name) const;
  // Name of the file that holds a tensor, within the folder.
  std::string FileOf(const std::string& name) const;
  // Names of all tensors, ascending.
  std::vector<std::string> names() const;
  // kNotFound, naming tensor and file; kInvalidArgument for another shape.
  absl::StatusOr<StoredTensor> Find(const std::string& name) const;
  absl::StatusOr<StoredTensor> Find(const std::string& name,
                                    const std::vector<int64_t>& shape) const;
  // kInvalidArgument for the first tensor that is in a file and not in
  // `expected`, naming both. Missing ones are Find's business.
  absl::Status CheckNoSurplus(const std::set<std::string>& expected) const;

 private:
  explicit SafetensorsFolder(std::string folder);
  absl::Status Add(std::unique_ptr<SafetensorsFile> file);
  absl::Status OpenIndex(const std::string& path);

  const std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> tensors_;
};

// Writes the tensor's elements as float32 to `out`, which has room for all of
// them; exact, as every bfloat16 and float16 is a float32. kInvalidArgument
// unless it is float32, bfloat16 or float16.
absl::Status CopyAsFloat32(const StoredTensor& tensor, float* out);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_SAFETENSORS_H_
