// Fuzz target of everything that is read from a TCP connection: bytes as they
// come, and frames that are whole but hold anything. Whatever comes is decoded
// to what an encoder writes, or refused; no payload is put where there is no
// room for it.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "transport/tcp/frame_reader.h"

namespace stagecoach::transport::tcp {
namespace {

using fuzzing::FuzzInput;
using fuzzing::Require;

constexpr size_t kRoom = 4096;  // for a payload

// Gives the bytes in pieces, then says that the peer has closed.
class Stream final : public ByteStream {
 public:
  Stream(std::string bytes, size_t piece)
      : bytes_(std::move(bytes)), piece_(piece) {}
  absl::StatusOr<size_t> Read(const iovec* parts, int count) override {
    if (at_ == bytes_.size()) return absl::UnavailableError("closed");
    const size_t limit = std::min(piece_, bytes_.size() - at_);
    size_t got = 0;
    for (int i = 0; i < count && got < limit; ++i) {
      const size_t part = std::min(parts[i].iov_len, limit - got);
      if (part > 0) std::memcpy(parts[i].iov_base, bytes_.data() + at_, part);
      at_ += part;
      got += part;
    }
    return got;
  }
  absl::StatusOr<size_t> Write(const iovec*, int) override {
    return absl::UnavailableError("closed");
  }
  void EndWriting() override {}
  int fd() const override { return -1; }

 private:
  const std::string bytes_;
  const size_t piece_;
  size_t at_ = 0;
};

template <typename T>
void CheckAgain(const absl::StatusOr<T>& value,
                absl::StatusOr<T> (*decode)(absl::string_view)) {
  if (!value.ok()) {
    Require(absl::IsInvalidArgument(value.status()), value.status().ToString());
    return;
  }
  const std::string body = Encode(*value);
  const absl::StatusOr<T> again = decode(body);
  Require(again.ok(), "cannot be read again: " + again.status().ToString());
  Require(Encode(*again) == body, "reads as another body");
}

// Whatever the frame's type: every decoder sees every body.
void DecodeAll(absl::string_view body) {
  CheckAgain<Hello>(DecodeHello(body), DecodeHello);
  CheckAgain<OpenEdge>(DecodeOpenEdge(body), DecodeOpenEdge);
  CheckAgain<EdgeOpened>(DecodeEdgeOpened(body), DecodeEdgeOpened);
  CheckAgain<Announce>(DecodeAnnounce(body), DecodeAnnounce);
  CheckAgain<EdgeStatus>(DecodeEdgeStatus(body), DecodeEdgeStatus);
  (void)DecodeWelcome(body).ok();
  absl::Status refusal;
  if (DecodeStatus(body, &refusal).ok()) {
    Require(!refusal.ok(), "a refusal that is none");
  }
}

class Handler final : public FrameReader::Handler {
 public:
  absl::Status OnFrame(const Frame& frame) override {
    Require(!reading_, "a frame inside of a payload");
    DecodeAll(frame.body);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<iovec>> OnPayload(const Frame& frame) override {
    Require(!reading_, "a payload inside of a payload");
    reading_ = true;
    if (!DecodeNumber(frame.body).ok()) return absl::DataLossError("sequence");
    if (frame.payload_bytes > kRoom) return std::vector<iovec>();  // dropped
    // Exactly so much room: AddressSanitizer sees the byte too many.
    room_.assign(frame.payload_bytes, '?');
    const size_t half = room_.size() / 2;
    return std::vector<iovec>{{room_.data(), half},
                              {room_.data() + half, room_.size() - half}};
  }
  absl::Status OnPayloadEnd(bool /*cancelled*/) override {
    Require(reading_, "the end of a payload that did not begin");
    reading_ = false;
    return absl::OkStatus();
  }

 private:
  bool reading_ = false;
  std::vector<char> room_;
};

// Frames as our own writer makes them, around bytes that it would not write.
std::string Frames(FuzzInput* input) {
  std::string bytes;
  while (!input->empty()) {
    const auto type = static_cast<FrameType>(input->Byte());
    const uint32_t edge = input->Byte();
    const absl::string_view body = input->Record();
    const absl::string_view payload =
        type == FrameType::kPayload ? input->Record() : absl::string_view();
    AppendFrame(type, edge, body, &bytes, payload.size());
    bytes.append(payload.data(), payload.size());
    if (type != FrameType::kPayload) continue;
    Trailer trailer;
    trailer.flags = input->Byte();
    trailer.crc = input->Word();
    bytes.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  }
  return bytes;
}

}  // namespace
}  // namespace stagecoach::transport::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace tcp = stagecoach::transport::tcp;
  stagecoach::fuzzing::FuzzInput input(data, size);
  const int flags = input.Below(4);
  const size_t piece = 1 + input.Byte() * size_t{16};
  std::string bytes;
  if ((flags & 1) != 0) {
    bytes = tcp::Frames(&input);
  } else {
    bytes = std::string(input.rest());
  }
  tcp::Counters counters;
  tcp::FrameReader reader(&counters);
  reader.RequireChecksum((flags & 2) != 0);
  tcp::Handler handler;
  tcp::Stream stream(std::move(bytes), piece);
  const absl::Status end = reader.Read(&stream, &handler, /*to_end=*/true);
  stagecoach::fuzzing::Require(
      absl::IsUnavailable(end) || absl::IsDataLoss(end), end.ToString());
  return 0;
}
