#ifndef STAGECOACH_BAZEL_FUZZING_FUZZ_INPUT_H_
#define STAGECOACH_BAZEL_FUZZING_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace stagecoach::fuzzing {

// Reads a fuzzer's bytes from front to back as numbers and records. Gives zeros
// and empty records once they are used up, so that every input means something.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  absl::string_view rest() const { return rest_; }

  uint8_t Byte() {
    const absl::string_view byte = Bytes(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  // From 0 to bound - 1; bound is at most 256.
  int Below(int bound) { return Byte() % bound; }
  // Little endian.
  uint32_t Word() {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= uint32_t{Byte()} << (8 * i);
    return word;
  }
  // Fewer, if there are not so many.
  absl::string_view Bytes(size_t count) {
    const absl::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    // Never a null pointer: memcpy takes none, not even for no bytes.
    return bytes.empty() ? absl::string_view("") : bytes;
  }
  // Two bytes of length, then so many.
  absl::string_view Record() {
    const size_t low = Byte();
    return Bytes(low | size_t{Byte()} << 8);
  }

 private:
  absl::string_view rest_;
};

// What Record() reads; for writing seeds.
inline std::string AsRecord(absl::string_view bytes) {
  const size_t size = std::min<size_t>(bytes.size(), 0xFFFF);
  std::string record;
  record.push_back(static_cast<char>(size & 0xFF));
  record.push_back(static_cast<char>(size >> 8));
  record.append(bytes.data(), size);
  return record;
}

// A finding: something that may never happen has happened.
inline void Require(bool condition, absl::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "finding: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

}  // namespace stagecoach::fuzzing

#endif  // STAGECOACH_BAZEL_FUZZING_FUZZ_INPUT_H_
