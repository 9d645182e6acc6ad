#ifndef STAGECOACH_TESTS_NCCL_HOST_EMULATOR_EXCHANGE_H_
#define STAGECOACH_TESTS_NCCL_HOST_EMULATOR_EXCHANGE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/nccl_host_emulator/host_communicator.h"

namespace nccl_host_emulator {

// Moves one group over the socket to the other rank, with rendezvous semantics:
//
//   receiver: kPosted(sequence, bytes)  ─▶
//             ◀─ kData(sequence, bytes), the bytes            :sender
//   receiver: kTaken(sequence)  ─▶   and only now the send is complete
//
// Single-threaded.
class Exchange {
 public:
  enum class Outcome { kDone, kPeerGone, kMismatch };

  // `posted`: receives that the peer has posted for later groups, kept between
  // groups. `peer_final`: set when it has finalised.
  Exchange(int fd, const Group& group, std::map<uint64_t, uint64_t>* posted,
           bool* peer_final);
  // Blocks. kPeerGone also when the socket is shut down here.
  Outcome Run(std::string* why);

 private:
  struct Frame {
    uint32_t kind;
    uint32_t unused;
    uint64_t sequence;
    uint64_t bytes;
  };
  struct Output {
    std::vector<char> head;
    const char* body = nullptr;
    size_t body_bytes = 0;
    size_t written = 0;
  };
  static constexpr uint32_t kPosted = 1;
  static constexpr uint32_t kData = 2;
  static constexpr uint32_t kTaken = 3;
  static constexpr uint32_t kFinal = 4;

  friend bool SendFinal(int fd);
  friend bool AwaitFinal(int fd);

  void Queue(uint32_t kind, uint64_t sequence, uint64_t bytes,
             const char* body);
  bool StartSends(std::string* why);
  bool Write();
  // False: the peer has gone.
  bool Read();
  void OnFrame();
  void OnData();
  const Operation* Find(bool send, uint64_t sequence) const;

  const int fd_;
  const Group& group_;
  std::map<uint64_t, uint64_t>* const posted_;
  bool* const peer_final_;
  std::deque<Output> output_;
  std::map<uint64_t, bool> sends_started_;
  size_t left_ = 0;  // operations
  Frame frame_{};
  size_t frame_read_ = 0;
  char* body_ = nullptr;  // where the rest of the frame's body goes
  size_t body_left_ = 0;
};

// Tells the peer that this rank has finalised; waits until it has. False: gone.
bool SendFinal(int fd);
bool AwaitFinal(int fd);

}  // namespace nccl_host_emulator

#endif  // STAGECOACH_TESTS_NCCL_HOST_EMULATOR_EXCHANGE_H_
