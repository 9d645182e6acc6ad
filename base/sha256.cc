#include "base/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

namespace stagecoach {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}

Sha256::~Sha256() = default;

void Sha256::Update(const void* data, size_t bytes) {
  EVP_DigestUpdate(state_->context, data, bytes);
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, digest, &size);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace stagecoach
