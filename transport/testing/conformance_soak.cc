// Everything at random: what one does with edges, in any order and mixture.
// Prints its seed. SOAK_SEED repeats a run, SOAK_TRANSFERS makes it longer.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

using testing::EdgeNamed;
using testing::HeaderOf;
using testing::kTestDeadline;
using testing::PoolNamed;

constexpr uint64_t kTransfers = 600;
constexpr size_t kMostOutstanding = 1000;
constexpr size_t kMostHeld = 3;

uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// One edge, what went into it and what came out. Not thread-safe.
class SoakEdge {
 public:
  SoakEdge(Endpoint* from, Endpoint* to, const EdgeOptions& pool,
           std::mt19937_64* random)
      : random_(*random),
        slot_bytes_(pool.slot_bytes),
        receive_(to->OpenReceive(pool).value()),
        send_(from->OpenSend(
                      EdgeNamed(pool.name), to->Describe(),
                      [this](const TransferHeader& header) {
                        OnAcknowledged(header);
                      },
                      kTestDeadline)
                  .value()) {}

  uint64_t posted() const { return posted_; }
  bool IsDone() const {
    return received_ == posted_ && completed_ == posted_ &&
           acknowledged_ == posted_;
  }
  std::string State() const {
    return absl::StrCat(posted_, " posted, ", completed_, " completed, ",
                        received_, " received, ", acknowledged_,
                        " acknowledged, ", held_.size(), " held");
  }

  void Send() {
    if (sources_.size() >= kMostOutstanding) return;
    const int index = static_cast<int>(posted_);
    std::vector<std::string>& source = sources_[index].tensors;
    size_t bytes = 0;
    for (uint64_t i = random_() % 5; i > 0; --i) {
      std::string tensor = RandomBytes();
      if (AlignedBytes(bytes) + tensor.size() > slot_bytes_) break;
      bytes = AlignedBytes(bytes) + tensor.size();
      source.push_back(std::move(tensor));
    }
    std::vector<OutgoingTensor> tensors;
    tensors.reserve(source.size());
    for (const std::string& tensor : source) tensors.push_back(Over(tensor));
    ++posted_;
    send_->PostSend(HeaderOf(index), std::move(tensors), OnSent(index));
  }

  // In the receiver's memory, where the path has it and a slot is at hand.
  void SendFromSlot() {
    const std::optional<WritableSlot> slot = send_->TakeSlot();
    if (!slot) return;
    if (random_() % 4 == 0) return send_->ReturnSlot(*slot);
    const int index = static_cast<int>(posted_++);
    std::string tensor = RandomBytes();
    tensor.resize(std::min(tensor.size(), slot->bytes));
    if (!tensor.empty()) std::memcpy(slot->data, tensor.data(), tensor.size());
    const TensorDescriptor descriptor = Over(tensor).descriptor;
    sources_[index].tensors.push_back(std::move(tensor));
    send_->PostSendFromSlot(HeaderOf(index), descriptor, *slot, OnSent(index));
  }

  void Receive() {
    if (receives_posted_ >= received_ + kMostOutstanding) return;
    ++receives_posted_;
    receive_->PostReceive([this](absl::StatusOr<ReceivedTransfer> transfer) {
      OnReceived(std::move(transfer));
    });
  }
  // What is still to come can come.
  void ReceiveAll() {
    while (receives_posted_ < posted_) Receive();
    Drop(/*all=*/true);
    Acknowledge(/*all=*/true);
  }

  void Drop(bool all) {
    if (all) return held_.clear();
    if (held_.empty()) return;
    held_.erase(held_.begin() +
                static_cast<std::ptrdiff_t>(random_() % held_.size()));
  }

  void Acknowledge(bool all) {
    while (acknowledging_ < received_) {
      receive_->Acknowledge(HeaderOf(static_cast<int>(acknowledging_++)));
      if (!all) return;
    }
  }

 private:
  struct Source {
    std::vector<std::string> tensors;
    bool completed = false;
    bool received = false;
  };

  static OutgoingTensor Over(const std::string& bytes) {
    OutgoingTensor tensor;
    tensor.descriptor.dtype = DType::kUInt8;
    tensor.descriptor.shape = {static_cast<int64_t>(bytes.size())};
    tensor.data = bytes.data();
    return tensor;
  }

  // Mostly small, often empty or odd, now and then the whole slot.
  std::string RandomBytes() {
    size_t bytes = 0;
    switch (random_() % 8) {
      case 0:
        break;
      case 1:
        bytes = random_() % 3 == 0 ? slot_bytes_ : random_() % slot_bytes_;
        break;
      default:
        bytes = random_() % std::min<size_t>(slot_bytes_, 5000);
    }
    std::string tensor(bytes, static_cast<char>(random_()));
    // A stripe of bytes of its own, so that neither a shift nor a mixture of
    // two transfers goes unseen.
    for (size_t at = 0; at < bytes; at += 1 + random_() % 97) {
      tensor[at] = static_cast<char>(random_());
    }
    return tensor;
  }

  SendEdge::LocalCompletion OnSent(int index) {
    return [this, index](absl::Status status) {
      EXPECT_TRUE(status.ok()) << index << ": " << status;
      const auto source = sources_.find(index);
      ASSERT_NE(source, sources_.end()) << index;
      EXPECT_FALSE(std::exchange(source->second.completed, true)) << index;
      ++completed_;
      Forget(source);
    };
  }

  void OnReceived(absl::StatusOr<ReceivedTransfer> transfer) {
    // The last receives have no transfer: they end with the edge.
    if (!transfer.ok()) return;
    const int index = static_cast<int>(received_++);
    EXPECT_EQ(transfer->header, HeaderOf(index));
    const auto source = sources_.find(index);
    ASSERT_NE(source, sources_.end()) << index;
    EXPECT_FALSE(std::exchange(source->second.received, true)) << index;
    const std::vector<std::string>& sent = source->second.tensors;
    ASSERT_EQ(transfer->tensors.size(), sent.size()) << index;
    for (size_t i = 0; i < sent.size(); ++i) {
      const IncomingTensor& tensor = transfer->tensors[i];
      ASSERT_EQ(tensor.descriptor, Over(sent[i]).descriptor) << index;
      EXPECT_TRUE(sent[i].empty() ||
                  std::memcmp(tensor.data, sent[i].data(), sent[i].size()) == 0)
          << index;
    }
    Forget(source);
    if (held_.size() < kMostHeld && random_() % 2 == 0) {
      held_.push_back(*std::move(transfer));
    }
    if (random_() % 2 == 0) Acknowledge(/*all=*/true);
  }

  void OnAcknowledged(const TransferHeader& header) {
    EXPECT_EQ(header, HeaderOf(static_cast<int>(acknowledged_)));
    ++acknowledged_;
  }

  void Forget(std::map<int, Source>::iterator source) {
    if (source->second.completed && source->second.received) {
      sources_.erase(source);
    }
  }

  std::mt19937_64& random_;
  const size_t slot_bytes_;
  std::map<int, Source> sources_;
  std::vector<ReceivedTransfer> held_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint64_t receives_posted_ = 0;
  uint64_t received_ = 0;
  uint64_t acknowledging_ = 0;
  uint64_t acknowledged_ = 0;
  // Last: their ends complete what is left.
  const std::unique_ptr<ReceiveEdge> receive_;
  const std::unique_ptr<SendEdge> send_;
};

}  // namespace

// Three edges, two one way and one the other; small slots and large ones.
TEST_P(TransportConformance, ARandomMixtureArrivesOnceInOrderAndUnchanged) {
  const uint64_t seed = Setting("SOAK_SEED", std::random_device()());
  const uint64_t transfers = Setting("SOAK_TRANSFERS", kTransfers);
  std::cout << "SOAK_SEED=" << seed << std::endl;
  std::mt19937_64 random(seed);
  std::array<std::unique_ptr<SoakEdge>, 3> edges = {
      std::make_unique<SoakEdge>(a_.get(), b_.get(),
                                 PoolNamed("many", 40, 3000), &random),
      std::make_unique<SoakEdge>(a_.get(), b_.get(),
                                 PoolNamed("large", 4, 1 << 20), &random),
      std::make_unique<SoakEdge>(b_.get(), a_.get(),
                                 PoolNamed("back", 5, 65536), &random)};
  for (uint64_t sent = 0; sent < transfers;) {
    SoakEdge& edge = *edges[random() % edges.size()];
    const uint64_t before = edge.posted();
    switch (random() % 12) {
      case 0:
      case 1:
      case 2:
        edge.Send();
        break;
      case 3:
        edge.SendFromSlot();
        break;
      case 4:
      case 5:
      case 6:
        edge.Receive();
        break;
      case 7:
        edge.Drop(/*all=*/false);
        break;
      case 8:
        edge.Acknowledge(/*all=*/false);
        break;
      case 9:
        a_->Progress();
        break;
      case 10:
        b_->Progress();
        break;
      default:
        a_->Progress();
        b_->Progress();
    }
    sent += edge.posted() - before;
    if (HasFailure()) break;
  }
  const bool done = Until([&] {
    bool all = true;
    for (const auto& edge : edges) {
      edge->ReceiveAll();
      all = all && edge->IsDone();
    }
    return all || HasFailure();
  });
  for (const auto& edge : edges) EXPECT_TRUE(done) << edge->State();
}

}  // namespace stagecoach::transport
