#ifndef STAGECOACH_TRANSPORT_TCP_TESTING_RAW_PEER_H_
#define STAGECOACH_TRANSPORT_TCP_TESTING_RAW_PEER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "transport/tcp/descriptor.h"
#include "transport/tcp/frame.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::tcp {

// A dialler that says whatever a test wants, over a blocking socket.
// Thread-compatible.
class RawPeer {
 public:
  // Connects to the endpoint that described itself so.
  explicit RawPeer(absl::string_view descriptor);

  // A greeting as it should be; to be changed before it is sent.
  Hello hello() const { return hello_; }
  void Send(FrameType type, uint32_t edge, absl::string_view body);
  void SendBytes(absl::string_view bytes);
  // A payload frame with its bytes and trailer.
  void SendPayload(uint32_t edge, uint64_t sequence, absl::string_view bytes,
                   const Trailer& trailer = Trailer());
  // Announces one tensor of int64 values.
  void AnnounceValues(uint32_t edge, uint64_t sequence, int64_t values);

  struct Received {
    bool end = false;  // closed by the endpoint
    FrameType type{};
    uint32_t edge = 0;
    std::string body;
  };
  // The next frame; blocks.
  Received Receive();
  // Reads until the endpoint closes.
  void AwaitEnd();

 private:
  bool ReadAll(char* data, size_t bytes);

  Hello hello_;
  UniqueFd fd_;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_TESTING_RAW_PEER_H_
