#include "transport/tcp/testing/raw_peer.h"

#include <sys/socket.h>

#include "transport/ring/wire_format.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport::tcp {

RawPeer::RawPeer(absl::string_view descriptor) {
  const Descriptor parsed = ParseDescriptor(descriptor).value();
  hello_.token = parsed.token;
  hello_.instance = parsed.instance;
  hello_.connection = 4711;
  const SocketAddress& address = parsed.addresses.front();
  fd_.Reset(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  // A test that waits for ever fails instead.
  const timeval limit = absl::ToTimeval(testing::kTestDeadline);
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  (void)connect(fd_.get(), address.get(), address.bytes());
}

void RawPeer::SendBytes(absl::string_view bytes) {
  // The endpoint may close in the middle of it.
  (void)send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void RawPeer::Send(FrameType type, uint32_t edge, absl::string_view body) {
  std::string frame;
  AppendFrame(type, edge, body, &frame);
  SendBytes(frame);
}

void RawPeer::SendPayload(uint32_t edge, uint64_t sequence,
                          absl::string_view bytes, const Trailer& trailer) {
  std::string frame;
  AppendFrame(FrameType::kPayload, edge, EncodeNumber(sequence), &frame,
              bytes.size());
  frame.append(bytes.data(), bytes.size());
  frame.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  SendBytes(frame);
}

void RawPeer::AnnounceValues(uint32_t edge, uint64_t sequence, int64_t values) {
  TensorDescriptor tensor;
  tensor.dtype = DType::kInt64;
  tensor.shape = {values};
  static const int64_t somewhere = 0;
  Announce announce;
  announce.sequence = sequence;
  announce.payload_bytes = tensor.bytes();
  announce.notice =
      ring::EncodeTransfer(testing::HeaderOf(static_cast<int>(sequence)),
                           {OutgoingTensor{tensor, &somewhere}})
          .value()
          .notice;
  Send(FrameType::kAnnounce, edge, Encode(announce));
}

bool RawPeer::ReadAll(char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(fd_.get(), data, bytes, 0);
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

RawPeer::Received RawPeer::Receive() {
  Received received;
  FrameHeader header;
  received.end = !ReadAll(reinterpret_cast<char*>(&header), sizeof(header));
  if (received.end) return received;
  received.type = static_cast<FrameType>(header.type);
  received.edge = header.edge;
  received.body.resize(header.body_bytes);
  received.end = !ReadAll(received.body.data(), received.body.size());
  return received;
}

void RawPeer::AwaitEnd() {
  while (!Receive().end) {
  }
}

}  // namespace stagecoach::transport::tcp
