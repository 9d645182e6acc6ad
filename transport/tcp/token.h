#ifndef STAGECOACH_TRANSPORT_TCP_TOKEN_H_
#define STAGECOACH_TRANSPORT_TCP_TOKEN_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::transport::tcp {

// 128 random bits: a secret, or a name that nobody else has.
using Token = std::array<uint8_t, 16>;

absl::StatusOr<Token> DrawToken();
// As hexadecimal digits, and back; kInvalidArgument for anything else.
std::string ToHex(const Token& token);
absl::StatusOr<Token> TokenFromHex(absl::string_view hex);
// Takes as long whatever differs.
bool SameToken(const Token& a, const Token& b);

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_TOKEN_H_
