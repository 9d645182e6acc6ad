#ifndef STAGECOACH_TESTS_NCCL_HOST_EMULATOR_HOST_COMMUNICATOR_H_
#define STAGECOACH_TESTS_NCCL_HOST_EMULATOR_HOST_COMMUNICATOR_H_

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/nccl_host_emulator/host_stream.h"
#include "tests/nccl_host_emulator/rendezvous.h"

namespace nccl_host_emulator {

// One ncclSend or ncclRecv.
struct Operation {
  bool send = false;
  char* data = nullptr;
  size_t bytes = 0;
  bool never_ends = false;     // by a fault
  int asynchronous_error = 0;  // by a fault
  int delay_milliseconds = 0;  // by a fault
  uint64_t sequence = 0;       // of its direction, set when launched
};
using Group = std::vector<Operation>;

// One rank of a two-rank communicator. Thread-safe inside; that NCCL's own
// callers use one thread is checked.
class HostCommunicator : public std::enable_shared_from_this<HostCommunicator> {
 public:
  HostCommunicator(int rank, int ranks, int device, bool blocking);
  ~HostCommunicator();

  // Joins the other rank on a thread of its own.
  void StartInitialising(const std::string& root, bool hang, int delay_ms);
  void WaitInitialised();
  // Launched by the second look at the state where nonblocking, else at once.
  ncclResult_t Launch(Group group, const std::shared_ptr<HostStream>& stream);
  ncclResult_t AsynchronousError();
  ncclResult_t Finalize();
  // Blocks until other communicators of this device have nothing under way, as
  // freeing device memory does.
  ncclResult_t Destroy();
  // Ends what is under way. Does not wait for other communicators.
  void Abort();

  // Records a misuse and returns what the call is answered with; ncclSuccess if
  // the call may be made.
  ncclResult_t CheckCall(const char* call);
  int device() const { return device_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool HasWorkUnderWay();
  std::string last_error();

 private:
  enum class State {
    kInitialising,
    kReady,
    kFinalizing,
    kFinalized,
    kGone,
  };
  // What is launched but not started yet.
  struct Pending {
    Group group;
    std::shared_ptr<HostStream> stream;
    int looks = 0;
  };

  void Initialise(const std::string& root, bool hang, int delay_ms);
  void PutIntoStream(Group group, const std::shared_ptr<HostStream>& stream);
  // On the stream's thread, one group after the other.
  void Run(const Group& group, uint64_t turn);
  bool MoveBytes(const Group& group);
  void Fail(ncclResult_t result, const std::string& why);
  void WaitUntilAborted();
  bool aborted() const { return aborted_.load(); }

  const int rank_;
  const int ranks_;
  const int device_;
  const bool blocking_;
  const std::thread::id owner_;

  std::atomic<bool> aborted_{false};
  Cancellation joining_;
  std::mutex mu_;
  std::condition_variable changed_;
  State state_ = State::kInitialising;
  bool initialising_thread_ = false;
  int fd_ = -1;
  ncclResult_t error_ = ncclSuccess;
  std::string last_error_;
  std::unique_ptr<Pending> pending_;
  uint64_t launched_groups_ = 0;
  uint64_t ended_groups_ = 0;
  uint64_t sends_ = 0;
  uint64_t receives_ = 0;

  // Of the running group.
  std::map<uint64_t, uint64_t> ready_;  // the peer's receives: bytes
  bool peer_final_ = false;
};

}  // namespace nccl_host_emulator

#endif  // STAGECOACH_TESTS_NCCL_HOST_EMULATOR_HOST_COMMUNICATOR_H_
