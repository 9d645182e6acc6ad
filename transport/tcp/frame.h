#ifndef STAGECOACH_TRANSPORT_TCP_FRAME_H_
#define STAGECOACH_TRANSPORT_TCP_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/ring/wire_format.h"
#include "transport/tcp/token.h"

// What goes over a connection. The sender of its edges dials (D), their
// receiver listens (L); every edge from one endpoint to another shares one
// connection.
//
//   D ── hello ───────────────────────────────────────────▶ L
//     ◀── welcome, or refused and the end ─────────────────
//   D ── open edge (each; again after a broken connection) ▶ L
//     ◀── edge opened (what has arrived, what is granted), or edge refused
//   D ── resumed: all edges that still live are open ─────▶ L
//   then for each edge, in any mixture:
//   D ── announce (sequence, header, shapes) ─────────────▶ L
//     ◀── status (received, granted: totals; acknowledgements) ──
//   D ── payload (a granted sequence), bytes, trailer ────▶ L
//   D ── seen (acknowledgements that need not be repeated) ▶ L
//     ◀── close edge, from either side ──▶
//
// A frame is a header, a body of at most kMaxBodyBytes, and for a payload its
// bytes and a trailer. Integers are little-endian.
namespace stagecoach::transport::tcp {

inline constexpr uint32_t kMagic = 0x31546353;  // "ScT1"
inline constexpr uint8_t kVersion = 1;
inline constexpr size_t kMaxBodyBytes = 4096;
inline constexpr size_t kMaxEdgeNameBytes = 400;
inline constexpr size_t kMaxAcksPerFrame = 64;
// Transfers that may be announced beyond those granted.
inline constexpr uint64_t kMaxAnnouncedAhead = 16;

enum class FrameType : uint8_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kOpenEdge = 4,
  kEdgeOpened = 5,
  kEdgeRefused = 6,
  kResumed = 7,
  kAnnounce = 8,
  kStatus = 9,
  kPayload = 10,
  kSeen = 11,
  kCloseEdge = 12,
};

struct FrameHeader {
  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  uint8_t type = 0;
  uint16_t reserved = 0;
  uint32_t edge = 0;  // by the dialler's count
  uint32_t body_bytes = 0;
  uint64_t payload_bytes = 0;
  uint32_t check = 0;  // CRC-32C of header (with check = 0) and body
  uint32_t reserved2 = 0;
};
static_assert(sizeof(FrameHeader) == 32);

// A frame as it came: `body` is checked for damage, not for meaning.
struct Frame {
  FrameType type;
  uint32_t edge = 0;
  uint64_t payload_bytes = 0;
  absl::string_view body;
};

// Behind a payload's bytes, where their checksum is known.
struct Trailer {
  uint32_t flags = 0;
  uint32_t crc = 0;
};
inline constexpr uint32_t kTrailerHasCrc = 1;
// The sender took the transfer back half-way: the bytes mean nothing.
inline constexpr uint32_t kTrailerCancelled = 2;

// Appends a frame to `out`; a payload's bytes and trailer come behind it.
void AppendFrame(FrameType type, uint32_t edge, absl::string_view body,
                 std::string* out, uint64_t payload_bytes = 0);
// What is wrong with a header that came; the body is not there yet.
enum class HeaderFault { kNone, kNotOurs, kOtherVersion, kTooLong };
HeaderFault CheckHeader(const FrameHeader& header);
bool CheckIntegrity(const FrameHeader& header, absl::string_view body);

// --- bodies ------------------------------------------------------------------
// Decoders give kInvalidArgument for anything that no encoder writes.

struct Hello {
  Token token{};            // of the descriptor
  Token instance{};         // of the descriptor: which endpoint is meant
  uint64_t connection = 0;  // drawn by the dialler; the same when made again
  int64_t epoch = 0;        // of the dialler
  bool checksum = false;    // payloads carry one
};
std::string Encode(const Hello& hello);
absl::StatusOr<Hello> DecodeHello(absl::string_view body);

// Body of kWelcome: whether the listener wants checksums.
std::string EncodeWelcome(bool checksum);
absl::StatusOr<bool> DecodeWelcome(absl::string_view body);

// Body of kRefused and kEdgeRefused.
std::string EncodeStatus(const absl::Status& status);
// The status in *refusal (never OK).
absl::Status DecodeStatus(absl::string_view body, absl::Status* refusal);

struct OpenEdge {
  std::string name;
  uint64_t seen = 0;    // acknowledgements that have arrived
  bool resume = false;  // it was open on this connection before
};
std::string Encode(const OpenEdge& open);
absl::StatusOr<OpenEdge> DecodeOpenEdge(absl::string_view body);

struct EdgeOpened {
  uint64_t slot_bytes = 0;
  uint64_t received = 0;  // whole transfers
  uint64_t granted = 0;   // transfers, from the edge's first
};
std::string Encode(const EdgeOpened& opened);
absl::StatusOr<EdgeOpened> DecodeEdgeOpened(absl::string_view body);

struct Announce {
  uint64_t sequence = 0;
  uint64_t payload_bytes = 0;  // of all tensors, without gaps
  // Its slot and sequence are not used.
  ring::PayloadNotice notice{};
};
std::string Encode(const Announce& announce);
absl::StatusOr<Announce> DecodeAnnounce(absl::string_view body);

struct EdgeStatus {
  uint64_t received = 0;
  uint64_t granted = 0;
  uint64_t first_ack = 0;  // sequence number of acks[0]
  std::vector<ring::WireHeader> acks;
};
std::string Encode(const EdgeStatus& status);
absl::StatusOr<EdgeStatus> DecodeEdgeStatus(absl::string_view body);

// Bodies of one number: the sequence of kPayload, the count of kSeen.
std::string EncodeNumber(uint64_t number);
absl::StatusOr<uint64_t> DecodeNumber(absl::string_view body);

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_FRAME_H_
