#include "transport/testing/test_peer.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/process.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport::testing {
namespace {

constexpr size_t kSlotBytes = 1 << 16;

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

class Peer {
 public:
  explicit Peer(const EndpointFactory& factory)
      : endpoint_(factory(Options(bell_.get())).value()) {}

  void Receive(bool post, size_t slot_bytes) {
    receive_ = endpoint_->OpenReceive(PoolNamed("e", 2, slot_bytes)).value();
    if (post) {
      PostReceive();
      PostReceive();
    }
    Print(endpoint_->Describe());
    RunUntil([] { return false; });
  }

  void Send(int count, const std::string& peer) {
    Connect(peer);
    std::vector<std::vector<int64_t>> values;
    for (int i = 0; i < count; ++i) values.push_back({i, -i, 7});
    for (int i = 0; i < count; ++i) {
      send_->PostSend(HeaderOf(i), {TensorOver(values[i])},
                      [](absl::Status) {});
    }
    RunUntil([&] { return acknowledged_ == count; });
    Print("done");
  }

  void SendLarge(int bytes, const std::string& peer) {
    const std::vector<int64_t> values(static_cast<size_t>(bytes) / 8, 7);
    Connect(peer);
    send_->PostSend(HeaderOf(0), {TensorOver(values)}, [](absl::Status) {});
    RunUntil([&] { return acknowledged_ == 1; });
    Print("done");
  }

  void Hold(const std::string& peer) {
    Connect(peer);
    Print(endpoint_->Describe());
    RunUntil([] { return false; });
  }

  void DieInCopy(const std::string& peer) {
    constexpr size_t kPage = 4096;
    void* const pages = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(pages, 0x11, 2 * kPage);
    mprotect(static_cast<char*>(pages) + kPage, kPage, PROT_NONE);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    OutgoingTensor tensor;
    tensor.descriptor.dtype = DType::kUInt8;
    tensor.descriptor.shape = {2 * kPage};
    tensor.data = pages;
    Connect(peer);
    send_->PostSend(HeaderOf(0), {tensor}, [](absl::Status) {});
    RunUntil([] { return false; });
  }

 private:
  static EndpointOptions Options(Doorbell* bell) {
    EndpointOptions options;
    options.doorbell = bell;
    return options;
  }
  void Connect(const std::string& peer) {
    send_ = endpoint_
                ->OpenSend(
                    EdgeNamed("e"), peer,
                    [this](const TransferHeader&) { ++acknowledged_; },
                    kTestDeadline)
                .value();
  }
  void PostReceive() {
    receive_->PostReceive([this](absl::StatusOr<ReceivedTransfer> transfer) {
      if (!transfer.ok()) return;
      receive_->Acknowledge(transfer->header);
      PostReceive();
    });
  }
  void RunUntil(const std::function<bool()>& done) {
    while (!done()) {
      const uint32_t seen = bell_->Count();
      if (!endpoint_->Progress()) bell_->Wait(seen, absl::InfiniteDuration());
    }
  }

  const std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  const std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<ReceiveEdge> receive_;
  std::unique_ptr<SendEdge> send_;
  int acknowledged_ = 0;
};

}  // namespace

int RunTestPeer(const EndpointFactory& factory,
                std::vector<std::string> arguments) {
  if (arguments.size() < 2) return 2;
  absl::string_view parent = arguments.back();
  pid_t pid = 0;
  if (!absl::ConsumePrefix(&parent, "--die-with-parent=") ||
      !absl::SimpleAtoi(parent, &pid)) {
    return 2;
  }
  DieWithParent(pid);
  arguments.pop_back();
  const std::string& mode = arguments[0];
  int count = 0;
  const bool counts =
      arguments.size() > 1 && absl::SimpleAtoi(arguments[1], &count);
  Peer peer(factory);
  if (mode == "receive" || mode == "mute") {
    peer.Receive(/*post=*/mode == "receive",
                 counts ? static_cast<size_t>(count) : kSlotBytes);
  } else if (mode == "send" && counts) {
    peer.Send(count, arguments[2]);
  } else if (mode == "send-large" && counts) {
    peer.SendLarge(count, arguments[2]);
  } else if (mode == "hold") {
    peer.Hold(arguments[1]);
  } else if (mode == "die-in-copy") {
    peer.DieInCopy(arguments[1]);
  } else {
    return 2;
  }
  return 0;
}

}  // namespace stagecoach::transport::testing
