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
#include "transport/two_sided/carrier.h"

namespace stagecoach::transport::nccl {

// A communicator of two ranks, of which rank 0 sends, and its stream. The
// device must be in use on its thread.
class Communicator final : public two_sided::Communicator {
 public:
  using Way = two_sided::Way;

  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      std::shared_ptr<const Device> device, Way way, std::string name);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // The receiver's is the unique id; the sender has nothing to say.
  absl::StatusOr<std::string> Introduce() override;
  absl::Status Begin(const std::string& other) override;
  // Nothing to do for memory that is not NCCL's.
  absl::Status Register(const two_sided::PoolMemory& pool) override;
  void Submit(two_sided::GroupTransfer transfer) override;
  absl::Status Step(std::vector<uint64_t>* completed) override;
  absl::Status Finalize() override;
  // All of them are of this class. See Carrier.
  static absl::Status Abort(
      const std::vector<two_sided::Communicator*>& communicators);

  State state() const override { return state_; }
  size_t outstanding() const override {
    return waiting_.size() + running_.size();
  }

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
  absl::Status Launch(const two_sided::GroupTransfer& transfer);
  absl::Status MarkEnd(uint64_t sequence);
  absl::Status TakeCompleted(std::vector<uint64_t>* completed);
  absl::Status Destroy();
  void LetGo();
  absl::StatusOr<std::unique_ptr<DeviceEvent>> TakeEvent();

  const std::shared_ptr<const Device> device_;
  const Way way_;
  const std::string name_;
  ncclUniqueId id_{};  // once introduced or begun
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  State state_ = State::kNew;
  std::vector<void*> registrations_;
  std::deque<two_sided::GroupTransfer> waiting_;
  // The front of waiting_ is being launched.
  bool launching_ = false;
  std::deque<Running> running_;
  std::vector<std::unique_ptr<DeviceEvent>> spare_events_;
};

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_COMMUNICATOR_H_
