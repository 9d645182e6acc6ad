#ifndef STAGECOACH_TRANSPORT_UCX_COMMUNICATOR_H_
#define STAGECOACH_TRANSPORT_UCX_COMMUNICATOR_H_

#include <poll.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/two_sided/carrier.h"
#include "transport/ucx/context.h"

namespace stagecoach::transport::ucx {

// A UCP worker and its endpoint to the peer's. Both ends connect to each other
// and exchange an empty message: then it is ready. Each piece of a transfer is
// a message of its own with one tag, and these arrive in order.
//
// The worker is this communicator's alone, so ending it ends whatever UCX has
// under way: neither reads nor writes a buffer after that.
class Communicator final : public two_sided::Communicator {
 public:
  using Way = two_sided::Way;

  // Is in `live` for as long as it exists, which that must outlive.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      std::shared_ptr<const Context> context, Way way,
      std::set<Communicator*>* live);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Tag and address of the worker.
  absl::StatusOr<std::string> Introduce() override;
  absl::Status Begin(const std::string& other) override;
  // UCX registers what needs it by itself.
  absl::Status Register(const two_sided::PoolMemory& /*pool*/) override {
    return absl::OkStatus();
  }
  void Submit(two_sided::GroupTransfer transfer) override;
  absl::Status Step(std::vector<uint64_t>* completed) override;
  absl::Status Finalize() override;
  State state() const override { return state_; }
  size_t outstanding() const override { return running_.size(); }

  // As Carrier.
  bool Arm(std::vector<pollfd>* events);
  // Nothing is under way afterwards.
  void Abort();

 private:
  // One call of UCX that ends later. Stays where it is until then.
  struct Operation {
    void* request = nullptr;  // while it is under way
    ucs_status_t status = UCS_INPROGRESS;
    ucp_tag_recv_info_t received{};
    size_t bytes = 0;

    bool done() const { return status != UCS_INPROGRESS; }
  };
  using Operations = std::vector<std::unique_ptr<Operation>>;
  struct Running {
    uint64_t sequence = 0;
    Operations operations;
  };

  Communicator(std::shared_ptr<const Context> context, Way way,
               std::set<Communicator*>* live);

  const Libraries& libraries() const { return context_->libraries(); }
  absl::Status CreateEndpoint(const ucp_address_t* address);
  void PostSend(const two_sided::Piece& piece, uint64_t tag,
                Operation* operation);
  void PostReceive(const two_sided::Piece& piece, uint64_t tag,
                   Operation* operation);
  // `request` is what UCX returned.
  void Track(ucs_status_ptr_t request, Operation* operation);
  void CloseEndpoint(uint32_t flags);
  // As often as there is something; not for ever.
  void Progress();
  absl::Status TakeGreetings();
  absl::Status TakeCompleted(std::vector<uint64_t>* completed);
  absl::Status CheckDone(const Operation& operation) const;
  std::vector<Operation*> UnderWay();
  void Destroy();

  static void OnSent(void* request, ucs_status_t status, void* operation);
  static void OnReceived(void* request, ucs_status_t status,
                         const ucp_tag_recv_info_t* info, void* operation);
  static void OnPeerError(void* self, ucp_ep_h endpoint, ucs_status_t status);

  const std::shared_ptr<const Context> context_;
  const Way way_;
  std::set<Communicator*>* const live_;
  const uint64_t tag_;  // of messages to this end; the lowest bit is 0
  uint64_t peers_tag_ = 0;
  State state_ = State::kNew;
  ucp_worker_h worker_ = nullptr;
  int events_ = -1;  // the worker's, which closes it
  ucp_ep_h endpoint_ = nullptr;
  absl::Status failure_;
  Operation greeting_sent_;
  Operation greeting_received_;
  Operation closed_;
  std::deque<Running> running_;
};

}  // namespace stagecoach::transport::ucx

#endif  // STAGECOACH_TRANSPORT_UCX_COMMUNICATOR_H_
