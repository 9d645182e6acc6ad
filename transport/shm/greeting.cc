#include "transport/shm/greeting.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport::shm {
namespace {

constexpr uint64_t kHelloMagic = 0x306f6c6c65486353;   // "ScHello0"
constexpr uint64_t kAnswerMagic = 0x307277736e416353;  // "ScAnswr0"
constexpr uint32_t kVersion = 2;
constexpr size_t kMaxMessageBytes = 1000;
constexpr uint32_t kMaxCode =
    static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);

struct WireHello {
  uint64_t magic;
  uint32_t version;
  uint32_t edge_bytes;
  uint8_t token[16];
  int64_t epoch;
  char edge[kMaxEdgeNameBytes];
};

struct WireAnswer {
  uint64_t magic;
  uint32_t code;
  uint32_t message_bytes;
  char message[kMaxMessageBytes];
};

template <typename Wire>
std::string Bytes(const Wire& wire) {
  return std::string(reinterpret_cast<const char*>(&wire), sizeof(wire));
}

template <typename Wire>
bool FromBytes(absl::string_view packet, Wire* wire) {
  if (packet.size() != sizeof(*wire)) return false;
  std::memcpy(wire, packet.data(), sizeof(*wire));
  return true;
}

}  // namespace

absl::StatusOr<std::string> EncodeHello(const Hello& hello) {
  if (hello.edge.empty() || hello.edge.size() > kMaxEdgeNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shm: an edge name of ", hello.edge.size(),
                     " bytes; it must have 1 to ", kMaxEdgeNameBytes));
  }
  WireHello wire{};
  wire.magic = kHelloMagic;
  wire.version = kVersion;
  wire.edge_bytes = static_cast<uint32_t>(hello.edge.size());
  wire.epoch = hello.epoch;
  std::copy(hello.token.begin(), hello.token.end(), wire.token);
  std::copy(hello.edge.begin(), hello.edge.end(), wire.edge);
  return Bytes(wire);
}

absl::StatusOr<Hello> DecodeHello(absl::string_view packet) {
  WireHello wire;
  if (!FromBytes(packet, &wire) || wire.magic != kHelloMagic) {
    return absl::InvalidArgumentError("shm: this is no greeting");
  }
  if (wire.version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("shm: a greeting of version ", wire.version,
                     ", this worker speaks ", kVersion));
  }
  if (wire.edge_bytes == 0 || wire.edge_bytes > kMaxEdgeNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shm: a greeting with an edge name of ", wire.edge_bytes, " bytes"));
  }
  Hello hello;
  std::copy(wire.token, wire.token + sizeof(wire.token), hello.token.begin());
  hello.edge.assign(wire.edge, wire.edge_bytes);
  hello.epoch = wire.epoch;
  return hello;
}

std::string EncodeAnswer(const absl::Status& status) {
  WireAnswer wire{};
  const absl::string_view message =
      status.message().substr(0, kMaxMessageBytes);
  wire.magic = kAnswerMagic;
  wire.code = static_cast<uint32_t>(status.raw_code());
  wire.message_bytes = static_cast<uint32_t>(message.size());
  std::copy(message.begin(), message.end(), wire.message);
  return Bytes(wire);
}

absl::Status DecodeAnswer(absl::string_view packet) {
  WireAnswer wire;
  if (!FromBytes(packet, &wire) || wire.magic != kAnswerMagic ||
      wire.message_bytes > kMaxMessageBytes || wire.code > kMaxCode) {
    return absl::DataLossError("shm: the peer's answer is no answer");
  }
  return absl::Status(static_cast<absl::StatusCode>(wire.code),
                      absl::string_view(wire.message, wire.message_bytes));
}

}  // namespace stagecoach::transport::shm
