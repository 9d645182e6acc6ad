#ifndef STAGECOACH_BASE_SHA256_H_
#define STAGECOACH_BASE_SHA256_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace stagecoach {

// Incremental SHA-256 (OpenSSL's). Thread-compatible.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* data, size_t bytes);
  void Update(absl::string_view data) { Update(data.data(), data.size()); }
  // 64 lower-case hexadecimal digits. Call once, last.
  std::string FinishHex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_SHA256_H_
