// How soon after a transfer has arrived does its sender's ledger hear of it,
// and what does waiting cost? Two processes of this machine, both asleep on
// their doorbells, one transfer at a time, over each path. Prints the median
// and the 90th percentile from the receiver's completion to the sender's
// handler, and the processor time that two idle ends use in a second.
//
//   acknowledgement_latency
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "benchmarks/channel_ping_pong/baselines.h"
#include "transport/doorbell.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace stagecoach::benchmarks {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);
constexpr absl::Duration kIdle = absl::Seconds(1);
constexpr size_t kBytes = size_t{64} << 10;
constexpr int kTransfers = 300;
constexpr int kWarmUp = 20;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Check(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

double CpuMicroseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 +
           static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// An endpoint that is driven by one thread, which sleeps while nothing happens.
class End {
 public:
  explicit End(const std::string& kind)
      : bell_(Check(transport::Doorbell::Create())) {
    transport::EndpointOptions options;
    options.doorbell = bell_.get();
    endpoint_ = kind == "shm" ? Check(transport::NewShmEndpoint(options))
                              : Check(transport::NewTcpEndpoint(options));
  }

  transport::Endpoint* operator->() { return endpoint_.get(); }

  template <typename Condition>
  void Until(Condition done) {
    while (!done()) {
      const uint32_t seen = bell_->Count();
      if (!endpoint_->Progress() && !done()) bell_->Wait(seen, kTimeout);
    }
  }
  // Processor time of this process in `kIdle` of waiting.
  double IdleMicroseconds() {
    const double before = CpuMicroseconds();
    const absl::Time end = absl::Now() + kIdle;
    while (absl::Now() < end) {
      const uint32_t seen = bell_->Count();
      if (!endpoint_->Progress()) bell_->Wait(seen, end - absl::Now());
    }
    return CpuMicroseconds() - before;
  }

 private:
  std::unique_ptr<transport::Doorbell> bell_;
  std::unique_ptr<transport::Endpoint> endpoint_;
};

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

// The receiver: prints when each transfer arrived, on the host's steady clock.
int Child(const std::string& kind) {
  PinTo(1);
  End end(kind);
  transport::EdgeOptions edge;
  edge.name = "e";
  edge.slots = 2;
  edge.slot_bytes = kBytes;
  const auto receive = Check(end->OpenReceive(edge));
  std::vector<double> arrivals;
  bool over = false;
  std::function<void()> post = [&] {
    receive->PostReceive(
        [&](absl::StatusOr<transport::ReceivedTransfer> transfer) {
          if (!transfer.ok()) {
            over = true;
            return;
          }
          arrivals.push_back(NowMicroseconds());
          receive->Acknowledge(transfer->header);
          transfer->memory.reset();
          post();
        });
  };
  post();
  Print(end->Describe());
  end.Until([&] { return arrivals.size() == kTransfers + kWarmUp; });
  Print(absl::StrCat(end.IdleMicroseconds()));
  std::string line;
  for (const double at : arrivals) absl::StrAppendFormat(&line, "%.3f ", at);
  Print(line);
  end.Until([&] { return over; });
  return 0;
}

void Measure(const std::string& program, const std::string& kind) {
  SpawnOptions spawn;
  spawn.program = program;
  spawn.arguments = {"child", kind};
  spawn.pipe_stdout = true;
  spawn.die_with_parent = false;
  ChildProcess child = Check(ChildProcess::Spawn(spawn));
  End end(kind);
  transport::EdgeOptions edge;
  edge.name = "e";
  std::vector<double> heard;
  auto send = Check(end->OpenSend(
      edge, Check(child.ReadLine(kTimeout)),
      [&](const transport::TransferHeader&) {
        heard.push_back(NowMicroseconds());
      },
      kTimeout));
  const std::vector<char> bytes(kBytes, 1);
  transport::OutgoingTensor tensor;
  tensor.descriptor.dtype = DType::kUInt8;
  tensor.descriptor.shape = {static_cast<int64_t>(kBytes)};
  tensor.data = bytes.data();
  for (size_t i = 0; i < kTransfers + kWarmUp; ++i) {
    transport::TransferHeader header;
    header.microbatch = MicrobatchIndex(static_cast<int32_t>(i));
    size_t completed = 0;
    send->PostSend(header, {tensor}, [&](const absl::Status& status) {
      Check(status);
      ++completed;
    });
    end.Until([&] { return heard.size() == i + 1 && completed == 1; });
  }
  const double idle = end.IdleMicroseconds();
  const std::string peer_idle = Check(child.ReadLine(kTimeout));
  const std::vector<std::string> arrivals =
      absl::StrSplit(Check(child.ReadLine(kTimeout)), ' ', absl::SkipEmpty());
  std::vector<double> latencies;
  for (size_t i = kWarmUp; i < heard.size(); ++i) {
    double arrived = 0;
    if (!absl::SimpleAtod(arrivals[i], &arrived)) std::exit(1);
    latencies.push_back(heard[i] - arrived);
  }
  std::sort(latencies.begin(), latencies.end());
  Print(absl::StrFormat("%-4s  %6.1f us  %6.1f us   %6.0f us and %6s us", kind,
                        latencies[latencies.size() / 2],
                        latencies[latencies.size() * 9 / 10], idle, peer_idle));
  send.reset();
  Check(child.Wait(kTimeout).status());
}

}  // namespace
}  // namespace stagecoach::benchmarks

int main(int argc, char** argv) {
  using namespace stagecoach;
  if (argc == 3 && std::string(argv[1]) == "child") {
    return benchmarks::Child(argv[2]);
  }
  benchmarks::PinTo(0);
  const std::string program = ExecutableFolder() + "/acknowledgement_latency";
  benchmarks::Print(
      "path  median     90 %        cpu time of the two in an idle second");
  for (const char* kind : {"shm", "tcp"}) benchmarks::Measure(program, kind);
  return 0;
}
