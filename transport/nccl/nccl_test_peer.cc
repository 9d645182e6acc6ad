// Plays the other process of nccl_two_process_test.cc, over the host emulator:
//
//   receive             opens the receiving end "e", prints its description,
//                       receives and acknowledges for ever
//   mute                the same, but posts no receive
//   send N PEER         sends N transfers to PEER, waits for all
//                       acknowledgements, prints "done" and ends
//   hold PEER           connects to PEER, prints its own description, waits
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/process.h"
#include "transport/nccl/testing/emulator.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport {
namespace {

using testing::EdgeNamed;
using testing::HeaderOf;
using testing::kTestDeadline;
using testing::PoolNamed;
using testing::TensorOver;

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

class Peer {
 public:
  void Receive(bool post) {
    receive_ = endpoint_->OpenReceive(PoolNamed("e", 2, 1 << 16)).value();
    for (int i = 0; post && i < 2; ++i) PostReceive();
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

  void Hold(const std::string& peer) {
    Connect(peer);
    Print(endpoint_->Describe());
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
  const std::unique_ptr<Endpoint> endpoint_ =
      nccl::testing::NewEmulatedEndpoint(Options(bell_.get()),
                                         nccl::testing::EmulatorSettings(0))
          .value();
  std::unique_ptr<ReceiveEdge> receive_;
  std::unique_ptr<SendEdge> send_;
  int acknowledged_ = 0;
};

int Main(std::vector<std::string> arguments) {
  absl::string_view parent = arguments.back();
  pid_t pid = 0;
  if (!absl::ConsumePrefix(&parent, "--die-with-parent=") ||
      !absl::SimpleAtoi(parent, &pid)) {
    return 2;
  }
  DieWithParent(pid);
  const std::string& mode = arguments[0];
  int count = 0;
  Peer peer;
  if (mode == "receive" || mode == "mute") {
    peer.Receive(/*post=*/mode == "receive");
  } else if (mode == "send" && absl::SimpleAtoi(arguments[1], &count)) {
    peer.Send(count, arguments[2]);
  } else if (mode == "hold") {
    peer.Hold(arguments[1]);
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach::transport

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return stagecoach::transport::Main(
      std::vector<std::string>(argv + 1, argv + argc));
}
