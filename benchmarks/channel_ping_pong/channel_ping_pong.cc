// How long does a transfer take between two processes of this machine? Prints,
// for each size, half a round trip over each path, by a waiter that spins and
// by one that sleeps on its doorbell, against a memcpy of bytes that another
// core has just written and against a plain blocking socket. Adopted: what is
// sent lies in the receiver's memory already, and is handed over. TCP with TLS,
// too, if the variables STAGECOACH_TLS_... name certificates. Each process has
// a core to itself. Everything is measured in turns, and the median of them
// shown.
//
//   channel_ping_pong [TURNS]
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "base/tls_files.h"
#include "base/tls_identity.h"
#include "benchmarks/channel_ping_pong/baselines.h"
#include "transport/doorbell.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace stagecoach::benchmarks {
namespace {

using transport::Doorbell;
using transport::Endpoint;
using transport::EndpointOptions;

constexpr absl::Duration kTimeout = absl::Seconds(60);
constexpr size_t kLargest = size_t{16} << 20;

struct Size {
  const char* name;
  size_t bytes;
  int rounds;
};
constexpr Size kSizes[] = {{"64 KiB", size_t{64} << 10, 500},
                           {"1 MiB", size_t{1} << 20, 200},
                           {"16 MiB", kLargest, 30}};
constexpr int kWarmUp = 5;

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

constexpr char kAdopted[] = "shm-adopted";
constexpr char kEncrypted[] = "tcp-tls";

// Null without certificates: the path is left out.
std::shared_ptr<const TlsIdentity> IdentityOfEnvironment() {
  const TlsFiles files = TlsFilesOfEnvironment();
  return files.empty() ? nullptr : Check(TlsIdentity::Load(files));
}

// One process's end of a path: sends on one edge, receives on another.
class End {
 public:
  End(const std::string& kind, const std::string& receives_on)
      : adopts_(kind == kAdopted), bell_(Check(Doorbell::Create())) {
    EndpointOptions options;
    options.doorbell = bell_.get();
    transport::TcpOptions tcp;
    if (kind == kEncrypted) tcp.tls = IdentityOfEnvironment();
    endpoint_ = kind == "tcp" || kind == kEncrypted
                    ? Check(transport::NewTcpEndpoint(options, tcp))
                    : Check(transport::NewShmEndpoint(options));
    transport::EdgeOptions edge;
    edge.name = receives_on;
    edge.slots = 2;
    edge.slot_bytes = kLargest;
    receive_ = Check(endpoint_->OpenReceive(edge));
    for (int i = 0; i < 2; ++i) PostReceive();
  }

  ~End() { ending_ = true; }

  std::string Describe() const { return endpoint_->Describe(); }
  void Connect(const std::string& peer, const std::string& sends_on) {
    transport::EdgeOptions edge;
    edge.name = sends_on;
    send_ = Check(endpoint_->OpenSend(
        edge, peer, [](const transport::TransferHeader&) {}, kTimeout));
  }

  void Send(const std::vector<char>& bytes) {
    transport::OutgoingTensor tensor;
    tensor.descriptor.dtype = DType::kUInt8;
    tensor.descriptor.shape = {static_cast<int64_t>(bytes.size())};
    tensor.data = bytes.data();
    ++sending_;
    const auto done = [this](const absl::Status& status) {
      if (!ending_) Check(status);
      --sending_;
    };
    if (adopts_) {
      const transport::WritableSlot slot = AwaitSlot();
      send_->PostSendFromSlot(transport::TransferHeader(), tensor.descriptor,
                              slot, done);
    } else {
      send_->PostSend(transport::TransferHeader(), {tensor}, done);
    }
  }
  void AwaitEnd() {
    while (!ended_) {
      const uint32_t seen = bell_->Count();
      if (!endpoint_->Progress() && !ended_) bell_->Wait(seen, kTimeout);
    }
  }
  // Until then the bytes belong to the path.
  void AwaitCompletions() {
    while (sending_ > 0) {
      const uint32_t seen = bell_->Count();
      if (!endpoint_->Progress() && sending_ > 0) bell_->Wait(seen, kTimeout);
    }
  }
  void AwaitArrival(bool spin) {
    ++expected_;
    while (arrived_ < expected_) {
      const uint32_t seen = bell_->Count();
      const bool any = endpoint_->Progress();
      if (!any && !spin && arrived_ < expected_) bell_->Wait(seen, kTimeout);
    }
  }

  double Measure(const Size& size, bool spin) {
    const std::vector<char> bytes(size.bytes, 1);
    std::vector<double> times;
    for (int round = -kWarmUp; round < size.rounds; ++round) {
      const double start = NowMicroseconds();
      Send(bytes);
      AwaitArrival(spin);
      if (round >= 0) times.push_back((NowMicroseconds() - start) / 2);
    }
    AwaitCompletions();
    return Median(times);
  }
  void Answer(const Size& size, bool spin) {
    const std::vector<char> bytes(size.bytes, 1);
    for (int round = -kWarmUp; round < size.rounds; ++round) {
      AwaitArrival(spin);
      Send(bytes);
    }
    AwaitCompletions();
  }

 private:
  transport::WritableSlot AwaitSlot() {
    while (true) {
      const uint32_t seen = bell_->Count();
      std::optional<transport::WritableSlot> slot = send_->TakeSlot();
      if (slot.has_value()) return *std::move(slot);
      if (!endpoint_->Progress()) bell_->Wait(seen, kTimeout);
    }
  }
  void PostReceive() {
    receive_->PostReceive(
        [this](absl::StatusOr<transport::ReceivedTransfer> transfer) {
          if (ending_ || absl::IsAborted(transfer.status())) {
            ended_ = true;
            return;
          }
          Check(transfer.status());
          receive_->Acknowledge(transfer->header);
          ++arrived_;
          transfer->memory.reset();
          PostReceive();
        });
  }

  const bool adopts_;
  bool ending_ = false;
  bool ended_ = false;  // by the other side
  int sending_ = 0;
  std::unique_ptr<Doorbell> bell_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<transport::ReceiveEdge> receive_;
  std::unique_ptr<transport::SendEdge> send_;
  int64_t arrived_ = 0;
  int64_t expected_ = 0;
};

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

// The other process: same steps, answering.
int Child(const std::string& kind, const std::string& peer) {
  PinTo(1);
  if (kind == "socket") {
    int port = 0;
    if (!absl::SimpleAtoi(peer, &port)) return 2;
    SocketPingPong socket = SocketPingPong::Connect(port);
    for (const Size& size : kSizes) {
      socket.Answer(size.bytes, size.rounds + kWarmUp);
    }
    return 0;
  }
  End end(kind, "ping");
  Print(end.Describe());
  end.Connect(peer, "pong");
  Print("connected");
  for (const bool spin : {true, false}) {
    for (const Size& size : kSizes) end.Answer(size, spin);
  }
  // The parent ends first; its edge's end is what is awaited here.
  end.AwaitEnd();
  return 0;
}

ChildProcess Start(const std::string& program, const std::string& kind,
                   const std::string& peer) {
  SpawnOptions spawn;
  spawn.program = program;
  spawn.arguments = {"child", kind, peer};
  spawn.pipe_stdout = true;
  spawn.die_with_parent = false;
  return Check(ChildProcess::Spawn(spawn));
}

using Times = std::vector<double>;  // by size

Times MeasureSocket(const std::string& program) {
  SocketPingPong socket;
  ChildProcess child = Start(program, "socket", absl::StrCat(socket.port()));
  socket.Accept();
  Times times;
  for (const Size& size : kSizes) {
    socket.Measure(size.bytes, kWarmUp);
    times.push_back(socket.Measure(size.bytes, size.rounds));
  }
  Check(child.Wait(kTimeout).status());
  return times;
}

std::pair<Times, Times> MeasurePath(const std::string& program,
                                    const std::string& kind) {
  auto end = std::make_unique<End>(kind, "pong");
  ChildProcess child = Start(program, kind, end->Describe());
  end->Connect(Check(child.ReadLine(kTimeout)), "ping");
  Check(child.ReadLine(kTimeout).status());
  std::pair<Times, Times> times;
  for (const Size& size : kSizes) {
    times.first.push_back(end->Measure(size, true));
  }
  for (const Size& size : kSizes) {
    times.second.push_back(end->Measure(size, false));
  }
  end.reset();
  Check(child.Wait(kTimeout).status());
  return times;
}

void PrintRow(const std::string& name, const Times& times, const Times& copy,
              const Times& socket) {
  std::string row = absl::StrFormat("%-21s", name);
  for (size_t i = 0; i < times.size(); ++i) {
    absl::StrAppendFormat(&row, "  %9.1f us %5.2fx %5.2fx", times[i],
                          times[i] / copy[i], socket[i] / times[i]);
  }
  Print(row);
}

// Of each size's times in several turns.
Times Medians(const std::vector<Times>& turns) {
  Times medians;
  for (size_t size = 0; size < turns.front().size(); ++size) {
    std::vector<double> values;
    values.reserve(turns.size());
    for (const Times& turn : turns) values.push_back(turn[size]);
    medians.push_back(Median(values));
  }
  return medians;
}

int Parent(const std::string& program, int turns) {
  PinTo(0);
  std::vector<std::string> kinds = {"shm", kAdopted, "tcp"};
  if (IdentityOfEnvironment() != nullptr) kinds.push_back(kEncrypted);
  std::vector<Times> copies, sockets;
  std::map<std::string, std::vector<Times>> spinning, woken;
  for (int turn = 0; turn < turns; ++turn) {
    Times copy;
    for (const Size& size : kSizes) {
      copy.push_back(MemcpyMicroseconds(size.bytes, size.rounds));
    }
    copies.push_back(copy);
    sockets.push_back(MeasureSocket(program));
    for (const std::string& kind : kinds) {
      auto [spun, slept] = MeasurePath(program, kind);
      spinning[kind].push_back(std::move(spun));
      woken[kind].push_back(std::move(slept));
    }
  }
  const Times copy = Medians(copies);
  const Times socket = Medians(sockets);
  std::string head = absl::StrFormat("%-21s", "half round trip");
  for (const Size& size : kSizes) {
    absl::StrAppendFormat(&head, "  %-26s", size.name);
  }
  Print(head);
  PrintRow("memcpy", copy, copy, socket);
  PrintRow("plain socket", socket, copy, socket);
  for (const std::string& kind : kinds) {
    PrintRow(kind + ", spinning", Medians(spinning[kind]), copy, socket);
    PrintRow(kind + ", woken", Medians(woken[kind]), copy, socket);
  }
  Print(
      "first ratio: time against the memcpy; second: bandwidth against the "
      "plain socket");
  return 0;
}

}  // namespace

constexpr int kTurns = 3;

}  // namespace stagecoach::benchmarks

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "child") {
    return stagecoach::benchmarks::Child(argv[2], argv[3]);
  }
  int turns = stagecoach::benchmarks::kTurns;
  if (argc > 2 || (argc == 2 && !absl::SimpleAtoi(argv[1], &turns)) ||
      turns < 1) {
    std::fprintf(stderr, "usage: channel_ping_pong [TURNS]\n");
    return 2;
  }
  return stagecoach::benchmarks::Parent(
      stagecoach::ExecutableFolder() + "/channel_ping_pong", turns);
}
