#ifndef STAGECOACH_TRANSPORT_NCCL_COMMUNICATOR_H_
#define STAGECOACH_TRANSPORT_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/nccl/device.h"
#include "transport/nccl/settings.h"

namespace stagecoach::transport::nccl {

// Rank 0 of an edge's communicator sends, rank 1 receives.
enum class Way { kSend, kReceive };

struct Piece {
  void* data = nullptr;
  size_t bytes = 0;
};

// One transfer for NCCL: its pieces as one group.
struct GroupTransfer {
  uint64_t sequence = 0;
  std::vector<Piece> pieces;
  // The stream waits for it first; null: for nothing.
  std::shared_ptr<const DeviceEvent> after;
};

// A two-rank communicator, its stream, and the transfers on it, one after the
// other.
//
//   kNew ─ Begin ─▶ kInitialising ─▶ kReady ─ Finalize ─▶ kFinalizing ─▶ kGone
//                         └── Abort, from every state ──────────────────▶ kGone
//
// Nonblocking: every call starts something, Step() sees how far it is.
// Single-threaded: all calls, the destructor's too, on the thread that owns it,
// with the device in use there. Buffers of transfers must stay as they are
// until Step() says that these are complete, or until Abort() has returned.
class Communicator {
 public:
  enum class State { kNew, kInitialising, kReady, kFinalizing, kGone };

  // `name`: of the edge.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      std::shared_ptr<const Device> device, Way way, std::string name);
  // Gone or new only.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  static absl::StatusOr<std::string> NewUniqueId(const Device& device);

  // kInvalidArgument if `unique_id` is none.
  absl::Status Begin(const std::string& unique_id);
  // Buffers that this communicator will use often; after kReady.
  absl::Status Register(const DeviceMemory& memory);
  void Submit(GroupTransfer transfer);
  // Moves on what can move. Adds the sequences of transfers that are complete.
  // An error is final for the communicator: abort it.
  absl::Status Step(std::vector<uint64_t>* completed);
  // Everything submitted is complete; nothing is submitted any more.
  absl::Status Finalize();
  // Ends all that is under way on all of them, as one group: one by one they
  // would wait for each other. May never return; see StuckGuard. After an error
  // nothing is known of what still reads or writes their buffers.
  static absl::Status Abort(const std::vector<Communicator*>& communicators);

  State state() const { return state_; }
  // Transfers that are not complete.
  size_t outstanding() const { return waiting_.size() + running_.size(); }

 private:
  struct Running {
    uint64_t sequence;
    std::unique_ptr<DeviceEvent> event;
  };

  Communicator(std::shared_ptr<const Device> device, Way way, std::string name)
      : device_(std::move(device)), way_(way), name_(std::move(name)) {}

  const Libraries& libraries() const { return device_->libraries(); }
  // False while NCCL works on the last call.
  absl::StatusOr<bool> CallIsOver();
  absl::Status StartNext();
  absl::Status Launch(const GroupTransfer& transfer);
  absl::Status MarkEnd(uint64_t sequence);
  absl::Status TakeCompleted(std::vector<uint64_t>* completed);
  absl::Status Destroy();
  void LetGo();
  absl::StatusOr<std::unique_ptr<DeviceEvent>> TakeEvent();

  const std::shared_ptr<const Device> device_;
  const Way way_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  State state_ = State::kNew;
  std::vector<void*> registrations_;
  std::deque<GroupTransfer> waiting_;
  // The front of waiting_ is being launched.
  bool launching_ = false;
  std::deque<Running> running_;
  std::vector<std::unique_ptr<DeviceEvent>> spare_events_;
};

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_COMMUNICATOR_H_
