#ifndef STAGECOACH_TESTS_NCCL_HOST_EMULATOR_RENDEZVOUS_H_
#define STAGECOACH_TESTS_NCCL_HOST_EMULATOR_RENDEZVOUS_H_

#include <mutex>
#include <string>

namespace nccl_host_emulator {

// How the two ranks of a communicator find each other, in one process or two:
// whoever draws the unique id listens on a unix socket of the abstract
// namespace, compares what both say, and gives each one end of a socket pair.

// Starts listening, on a thread of its own, until both have come or a minute
// has passed. Returns the socket's name, the unique id's content.
std::string ListenForRanks();

struct Joined {
  int fd = -1;     // to the other rank; -1: `error` says why
  int result = 0;  // an ncclResult_t
  std::string error;
};
// Ends a wait for the other rank, from another thread, before it has begun or
// while it lasts.
class Cancellation {
 public:
  void Cancel();
  // False: cancelled before. The socket stays open until Leave.
  bool Enter(int socket);
  void Leave();

 private:
  std::mutex mu_;
  bool cancelled_ = false;
  int socket_ = -1;
};

// Blocks until both ranks are there, or it is cancelled.
Joined JoinRanks(const std::string& name, int ranks, int rank,
                 const std::string& gpu, Cancellation* cancellation);

}  // namespace nccl_host_emulator

#endif  // STAGECOACH_TESTS_NCCL_HOST_EMULATOR_RENDEZVOUS_H_
