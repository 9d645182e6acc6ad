// Fuzz target of data files: Megatron's index and llm.c's header. What opens
// can be read at its ends.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/string_view.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "stage_worker/data/token_stream.h"

namespace stagecoach::worker {
namespace {

using fuzzing::Require;

// One folder for the whole process, removed at its end.
class Folder {
 public:
  Folder() {
    const char* const base = std::getenv("TEST_TMPDIR");
    path_ = std::string(base == nullptr ? "/tmp" : base) + "/token_XXXXXX";
    Require(mkdtemp(path_.data()) != nullptr, "no folder for files");
  }
  ~Folder() {
    for (const char* name : {"/data.bin", "/data.idx"}) {
      std::remove((path_ + name).c_str());
    }
    std::remove(path_.c_str());
  }
  std::string Write(const char* name, absl::string_view bytes) const {
    std::string path = path_ + name;
    std::ofstream file(path, std::ios::binary);
    file << bytes;
    return path;
  }

 private:
  std::string path_;
};

void Check(const absl::StatusOr<std::unique_ptr<TokenStream>>& stream) {
  if (!stream.ok()) {
    Require(absl::IsInvalidArgument(stream.status()),
            stream.status().ToString());
    return;
  }
  const int64_t tokens = (*stream)->tokens();
  Require(tokens > 0, "a stream of no tokens");
  (*stream)->At(0);
  (*stream)->At(tokens - 1);
}

}  // namespace
}  // namespace stagecoach::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace worker = stagecoach::worker;
  static const worker::Folder folder;
  stagecoach::fuzzing::FuzzInput input(data, size);
  const int kind = input.Below(5);
  if (kind == 4) {
    folder.Write("/data.idx", input.Record());
    worker::Check(
        worker::OpenMegatron(folder.Write("/data.bin", input.rest())));
    return 0;
  }
  constexpr worker::TokenType kTypes[] = {
      worker::TokenType::kUInt16, worker::TokenType::kInt32,
      worker::TokenType::kUInt32, worker::TokenType::kInt64};
  worker::Check(worker::OpenTokenFile(folder.Write("/data.bin", input.rest()),
                                      kTypes[kind]));
  return 0;
}
