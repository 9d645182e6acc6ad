#include "transport/tcp/token.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::transport::tcp {

absl::StatusOr<Token> DrawToken() {
  Token token{};
  if (getrandom(token.data(), token.size(), 0) !=
      static_cast<ssize_t>(token.size())) {
    return absl::InternalError(
        absl::StrCat("tcp: getrandom: ", strerror(errno)));
  }
  return token;
}

std::string ToHex(const Token& token) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(token.data()), token.size()));
}

absl::StatusOr<Token> TokenFromHex(absl::string_view hex) {
  Token token{};
  const bool digits = std::all_of(hex.begin(), hex.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (hex.size() != 2 * token.size() || !digits) {
    return absl::InvalidArgumentError("tcp: no 32 hexadecimal digits");
  }
  const std::string bytes = absl::HexStringToBytes(hex);
  std::copy(bytes.begin(), bytes.end(), token.begin());
  return token;
}

bool SameToken(const Token& a, const Token& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace stagecoach::transport::tcp
