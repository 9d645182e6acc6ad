// What a user sees of each failure of NCCL and CUDA, over the host emulator.
// Every case ends by a deadline of the settings, none by a measured time.
#include <dlfcn.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/nccl/libraries.h"
#include "transport/nccl/nccl.h"
#include "transport/nccl/testing/emulator.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport {
namespace {

using nccl::NcclSettings;
using nccl::testing::Emulator;
using nccl::testing::EmulatorSettings;
using nccl::testing::NewEmulatedEndpoint;
using ::testing::AllOf;
using testing::EdgeNamed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::kTestDeadline;
using testing::Outcome;
using testing::PoolNamed;
using ::testing::SizeIs;
using testing::TensorOver;
using testing::ValuesOf;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// Worker a sends to worker b on edge "e".
class NcclFaultsTest : public ::testing::Test {
 protected:
  void MakeEndpoints() {
    a_ = NewEmulatedEndpoint(testing::OptionsFor(bell_.get(), &lost_a_),
                             settings_a_)
             .value();
    b_ = NewEmulatedEndpoint(testing::OptionsFor(bell_.get(), &lost_b_),
                             settings_b_)
             .value();
  }
  absl::Status Open(int slots = 2) {
    receive_ = b_->OpenReceive(PoolNamed("e", slots, 64)).value();
    auto send = a_->OpenSend(
        EdgeNamed("e"), b_->Describe(),
        [this](const TransferHeader& header) {
          acknowledged_.push_back(header);
        },
        kTestDeadline);
    if (send.ok()) send_ = *std::move(send);
    return send.status();
  }
  void TearDown() override {
    CloseAll();
    EXPECT_EQ(emulator_.TakeMisuses(), "");
  }
  // At the end of a test whose settings refer to what lies in it.
  void CloseAll() {
    send_.reset();
    receive_.reset();
    a_.reset();
    b_.reset();
  }
  bool Until(const std::function<bool()>& done) {
    return testing::Until(bell_.get(), {a_.get(), b_.get()}, done);
  }
  void Settle() {
    for (int quiet = 0; quiet < 10;) {
      const bool any = a_->Progress() | b_->Progress();
      quiet = any ? 0 : quiet + 1;
    }
  }

  Emulator emulator_;
  SimulatedClock clock_;  // for settings
  std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  testing::LostEdges lost_a_;
  testing::LostEdges lost_b_;
  NcclSettings settings_a_ = EmulatorSettings(0);
  NcclSettings settings_b_ = EmulatorSettings(1);
  std::vector<TransferHeader> acknowledged_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
  std::unique_ptr<ReceiveEdge> receive_;
  std::unique_ptr<SendEdge> send_;
};

// --- before anything runs ----------------------------------------------------

TEST_F(NcclFaultsTest, WithoutAGpuThereIsNoEndpoint) {
  emulator_.Set("gpus=0");
  const absl::Status status =
      nccl::testing::NewEmulatedEndpoint(
          testing::OptionsFor(bell_.get(), &lost_a_), settings_a_)
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("no GPU 0"), HasSubstr("CUDA_VISIBLE_DEVICES")));
  EXPECT_EQ(DescribeNccl(settings_a_).status(), status);
}

TEST_F(NcclFaultsTest, TwoWorkersOnOneGpuAreRefusedBeforeNcclIsAsked) {
  emulator_.Set("one_gpu=1");
  MakeEndpoints();
  const absl::Status status = a_->IsViable(b_->Describe());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("give each worker a GPU"));
  EXPECT_EQ(emulator_.Calls("ncclCommInitRankConfig"), 0);
}

TEST_F(NcclFaultsTest, SharedKnowinglyAGpuIsLeftToNccl) {
  emulator_.Set("one_gpu=1");
  settings_a_.share_gpu = true;
  settings_b_.share_gpu = true;
  MakeEndpoints();
  EXPECT_TRUE(a_->IsViable(b_->Describe()).ok());
  EXPECT_THAT(MessageOf(Open()), HasSubstr("Duplicate GPU detected"));
}

TEST_F(NcclFaultsTest, AnEngineOnTheHostNeedsMemoryThatItCanRead) {
  emulator_.Set("device_memory=1");
  MakeEndpoints();
  const absl::Status status = b_->OpenReceive(PoolNamed("e", 1, 64)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("--device cuda:N"));
  EXPECT_EQ(DescribeNccl(settings_b_).status().message(),
            "nccl: the engine of this worker computes on the CPU and cannot "
            "read the GPU's memory; start the worker with --device cuda:N, or "
            "use transport = \"shm\" or \"tcp\"");
  settings_b_.engine_on_host = false;
  MakeEndpoints();
  EXPECT_TRUE(b_->OpenReceive(PoolNamed("e", 1, 64)).ok());
}

TEST_F(NcclFaultsTest, APoolThatDoesNotFitIsOutOfMemory) {
  MakeEndpoints();
  emulator_.Set("cudaMalloc=fail:2");
  const absl::Status status = b_->OpenReceive(PoolNamed("e", 3, 100)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("\"e\""), HasSubstr("384 bytes"),
                    HasSubstr("cudaErrorMemoryAllocation")));
}

// --- while a communicator is made --------------------------------------------

struct OpeningFault {
  const char* name;
  const char* fault;
  absl::StatusCode code;
  const char* message;
};

class NcclOpeningTest : public NcclFaultsTest,
                        public ::testing::WithParamInterface<OpeningFault> {};

TEST_P(NcclOpeningTest, IsWhatOpenSendReturns) {
  settings_a_.initialise_within = absl::Milliseconds(100);
  MakeEndpoints();
  emulator_.Set(GetParam().fault);
  const absl::Status status = Open();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("\"e\""), HasSubstr(GetParam().message)));
  EXPECT_THAT(lost_a_.all(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Faults, NcclOpeningTest,
    ::testing::Values(
        OpeningFault{"NoUniqueId", "ncclGetUniqueId=fail:2",
                     absl::StatusCode::kUnavailable, "gave up"},
        OpeningFault{"TheSenderCannotInitialise",
                     "ncclCommInitRankConfig/0=fail:4",
                     absl::StatusCode::kFailedPrecondition,
                     "ncclCommInitRankConfig failed: invalid argument"},
        OpeningFault{"TheReceiverCannotInitialise",
                     "ncclCommInitRankConfig/1=fail:3",
                     absl::StatusCode::kUnavailable, "gave up"},
        OpeningFault{"NeitherIsEverReady", "ncclCommInitRankConfig=hang",
                     absl::StatusCode::kUnavailable,
                     "was not made within 100ms"},
        OpeningFault{"TheOtherIsNeverReady", "ncclCommInitRankConfig/1=hang",
                     absl::StatusCode::kUnavailable, "NCCL_SOCKET_IFNAME"},
        OpeningFault{"NoStream", "cudaStreamCreateWithFlags/0=fail:2",
                     absl::StatusCode::kResourceExhausted,
                     "cudaStreamCreateWithFlags failed"}),
    [](const auto& test) { return test.param.name; });

// The receiver's own report, where the fault is on its side.
TEST_F(NcclFaultsTest, AReceiverThatCannotBeReadySaysWhy) {
  settings_b_.initialise_within = absl::Milliseconds(50);
  settings_a_.initialise_within = absl::Seconds(30);
  MakeEndpoints();
  emulator_.Set("ncclCommInitRankConfig/0=hang");
  EXPECT_FALSE(Open().ok());
  ASSERT_TRUE(Until([&] { return !lost_b_.all().empty(); }));
  EXPECT_THAT(MessageOf(lost_b_.all()[0].status),
              HasSubstr("not made within 50ms"));
}

TEST_F(NcclFaultsTest, AnOpenWithoutAnAnswerEndsByItsDeadline) {
  settings_a_.clock = &clock_;
  EndpointOptions options = testing::OptionsFor(bell_.get(), &lost_b_);
  // Its turn never comes: the edge before it is never opened.
  options.opening_order = {"before", "e"};
  MakeEndpoints();
  b_ = NewEmulatedEndpoint(options, settings_b_).value();
  absl::Status status;
  std::thread opener([&] { status = Open(); });
  Notification opened;
  std::thread timer([&] {
    // However often it takes until the opener has started to wait.
    while (!opened.WaitForNotificationWithTimeout(absl::Milliseconds(1))) {
      clock_.Advance(absl::Seconds(70));
    }
  });
  opener.join();
  opened.Notify();
  timer.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("did not answer within 1m"));
}

// --- while transfers run -----------------------------------------------------

struct RunningFault {
  const char* name;
  const char* fault;
  bool at_receiver;
  absl::StatusCode code;
  const char* message;
};

class NcclRunningTest : public NcclFaultsTest,
                        public ::testing::WithParamInterface<RunningFault> {};

// One end reports the edge as lost with the reason, the other sees it end; all
// operations of both complete, once.
TEST_P(NcclRunningTest, LosesTheEdgeWithItsReason) {
  MakeEndpoints();
  ASSERT_TRUE(Open(4).ok());
  emulator_.Set(GetParam().fault);
  const std::vector<int64_t> values = {1, 2, 3};
  std::array<Outcome, 3> sent;
  std::array<Outcome, 3> received;
  for (Outcome& outcome : received)
    receive_->PostReceive(IntoReceive(&outcome));
  for (Outcome& outcome : sent) {
    send_->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&outcome));
  }
  const testing::LostEdges& lost = GetParam().at_receiver ? lost_b_ : lost_a_;
  ASSERT_TRUE(Until([&] { return !lost.all().empty(); }));
  EXPECT_EQ(lost.all()[0].status.code(), GetParam().code);
  EXPECT_THAT(MessageOf(lost.all()[0].status),
              AllOf(HasSubstr("\"e\""), HasSubstr(GetParam().message)));
  ASSERT_TRUE(Until([&] {
    int calls = 0;
    for (int i = 0; i < 3; ++i) calls += sent[i].calls + received[i].calls;
    return calls >= 6;
  }));
  Settle();
  EXPECT_FALSE(sent[2].status.ok());
  EXPECT_FALSE(received[2].status.ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sent[i].calls, 1) << i;
    EXPECT_EQ(received[i].calls, 1) << i;
  }
  EXPECT_THAT(lost.all(), SizeIs(1));
  // Terminal.
  const Endpoint& dead = GetParam().at_receiver ? *b_ : *a_;
  EXPECT_TRUE(absl::IsAborted(
      const_cast<Endpoint&>(dead).OpenReceive(PoolNamed("f", 1, 64)).status()));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, NcclRunningTest,
    ::testing::Values(
        RunningFault{"ASendFails", "ncclSend@2=fail:3", false,
                     absl::StatusCode::kInternal,
                     "ncclSend failed: internal error"},
        RunningFault{"AReceiveFails", "ncclRecv@1=fail:5", true,
                     absl::StatusCode::kFailedPrecondition,
                     "ncclRecv failed: invalid usage"},
        RunningFault{"AGroupFails", "ncclGroupEnd/0@1=fail:1", false,
                     absl::StatusCode::kInternal, "unhandled cuda error"},
        RunningFault{"AnErrorComesLater", "ncclSend@2=async:6", false,
                     absl::StatusCode::kUnavailable,
                     "remote process exited or there was a network error"},
        RunningFault{"AnErrorComesLaterToTheReceiver", "ncclRecv@2=async:2",
                     true, absl::StatusCode::kUnavailable,
                     "unhandled system error - injected"},
        RunningFault{"TheDeviceFails", "cudaEventRecord/0=fail:700", false,
                     absl::StatusCode::kInternal, "cudaErrorIllegalAddress"}),
    [](const auto& test) { return test.param.name; });

TEST_F(NcclFaultsTest, AbortEndsATransferThatNeverWould) {
  settings_b_.close_within = absl::Milliseconds(50);
  MakeEndpoints();
  ASSERT_TRUE(Open().ok());
  emulator_.Set("ncclSend=hang");
  const std::vector<int64_t> values = {1, 2, 3};
  Outcome sent;
  Outcome received;
  receive_->PostReceive(IntoReceive(&received));
  send_->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(emulator_.AwaitCalls("ncclSend", 1));
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_EQ(sent.status, absl::AbortedError("epoch 7 is over"));
  // The peer is told, and is not left in its half of the transfer.
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(received.status)) << received.status;
  EXPECT_THAT(lost_b_.all(), IsEmpty());
}

// Two edges with work under way: aborted one by one they would wait for each
// other.
TEST_F(NcclFaultsTest, AbortTakesAllEdgesAtOnce) {
  MakeEndpoints();
  ASSERT_TRUE(Open().ok());
  auto receive = b_->OpenReceive(PoolNamed("f", 2, 64)).value();
  auto send =
      a_->OpenSend(EdgeNamed("f"), b_->Describe(), nullptr, kTestDeadline)
          .value();
  emulator_.Set("ncclSend=hang");
  const std::vector<int64_t> values = {1, 2, 3};
  std::array<Outcome, 2> sent;
  std::array<Outcome, 2> received;
  receive_->PostReceive(IntoReceive(&received[0]));
  receive->PostReceive(IntoReceive(&received[1]));
  send_->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent[0]));
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent[1]));
  ASSERT_TRUE(emulator_.AwaitCalls("ncclSend", 2));
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  b_->Abort(absl::AbortedError("epoch 7 is over"));
  ASSERT_TRUE(Until([&] { return sent[0].calls + sent[1].calls == 2; }));
}

TEST_F(NcclFaultsTest, AnAbortThatDoesNotReturnAsksForTheProcesssEnd) {
  Mutex mu;
  absl::Status why;
  Notification stuck;
  settings_a_.clock = &clock_;
  settings_a_.on_stuck = [&](const absl::Status& status) {
    {
      MutexLock lock(&mu);
      why = status;
    }
    stuck.Notify();
  };
  MakeEndpoints();
  ASSERT_TRUE(Open().ok());
  Outcome sent;
  const std::vector<int64_t> values = {1, 2, 3};
  emulator_.Set("ncclSend=hang;ncclCommAbort=hang");
  Outcome received;
  receive_->PostReceive(IntoReceive(&received));
  send_->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(emulator_.AwaitCalls("ncclSend", 1));
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  ASSERT_TRUE(emulator_.AwaitCalls("ncclCommAbort", 1));
  // A peer or the device may still read the buffer: nobody gets it back.
  Settle();
  EXPECT_EQ(sent.calls, 0);
  // Again and again: the call counted above may be the peer's, and the time of
  // this end's begin later.
  do {
    clock_.Advance(settings_a_.abort_within);
  } while (!stuck.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  {
    MutexLock lock(&mu);
    EXPECT_THAT(MessageOf(why),
                AllOf(HasSubstr("ncclCommAbort"), HasSubstr("within 10s"),
                      HasSubstr("the process must end")));
  }
  EXPECT_EQ(sent.calls, 0);
  emulator_.Set("");  // where a worker would have ended, the test goes on
  EXPECT_TRUE(Until([&] { return sent.calls == 1; }));
  CloseAll();
}

TEST_F(NcclFaultsTest, AnAbortThatFailsAsksForTheProcesssEndToo) {
  Mutex mu;
  std::string why;
  settings_a_.on_stuck = [&](const absl::Status& status) {
    MutexLock lock(&mu);
    why = MessageOf(status);
  };
  settings_b_.close_within = absl::Milliseconds(50);
  MakeEndpoints();
  ASSERT_TRUE(Open().ok());
  emulator_.Set("ncclCommAbort/0=fail:1");
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  CloseAll();
  MutexLock lock(&mu);
  EXPECT_THAT(why, AllOf(HasSubstr("unhandled cuda error"),
                         HasSubstr("the process must end")));
}

TEST_F(NcclFaultsTest, TwoDescribedWorkersAreCompared) {
  const std::string one = DescribeNccl(settings_a_).value();
  const std::string other = DescribeNccl(settings_b_).value();
  EXPECT_TRUE(CheckNcclPair(one, other, /*share_gpu=*/false).ok());
  EXPECT_THAT(MessageOf(CheckNcclPair(one, one, /*share_gpu=*/false)),
              HasSubstr("one rank per GPU"));
  EXPECT_TRUE(CheckNcclPair(one, one, /*share_gpu=*/true).ok());
}

TEST_F(NcclFaultsTest, ACloseThatCannotFinalizeAborts) {
  MakeEndpoints();
  ASSERT_TRUE(Open().ok());
  emulator_.Set("ncclCommFinalize=fail:3");
  send_.reset();
  receive_.reset();
  EXPECT_GE(emulator_.Calls("ncclCommAbort"), 2);
}

TEST_F(NcclFaultsTest, OrderIsKeptWhateverTheTiming) {
  for (int seed = 1; seed <= 3; ++seed) {
    MakeEndpoints();
    ASSERT_TRUE(Open(4).ok());
    emulator_.Set("jitter=" + std::to_string(seed));
    constexpr int kTransfers = 100;
    std::vector<std::vector<int64_t>> values;
    std::vector<int64_t> order;
    for (int i = 0; i < kTransfers; ++i) values.push_back({i});
    std::vector<Outcome> sent(kTransfers);
    for (int i = 0; i < kTransfers; ++i) {
      receive_->PostReceive([&](absl::StatusOr<ReceivedTransfer> transfer) {
        if (transfer.ok()) order.push_back(ValuesOf(*transfer)[0]);
      });
      send_->PostSend(HeaderOf(i), {TensorOver(values[i])}, Into(&sent[i]));
    }
    ASSERT_TRUE(Until([&] {
      return order.size() == kTransfers && sent.back().calls == 1;
    })) << "seed "
        << seed;
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << "seed " << seed;
    send_.reset();
    receive_.reset();
  }
}

TEST_F(NcclFaultsTest, RegisteredBuffersAreUsedWhereTheyCanBe) {
  for (const char* fault :
       {"", "ncclMemAlloc=fail:3", "ncclCommRegister=fail:3"}) {
    settings_b_.registered_buffers = true;
    MakeEndpoints();
    emulator_.Set(fault);
    ASSERT_TRUE(Open().ok());
    Outcome sent;
    Outcome received;
    const std::vector<int64_t> values = {1, 2, 3};
    receive_->PostReceive(IntoReceive(&received));
    send_->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
    ASSERT_TRUE(Until([&] { return received.calls == 1; })) << fault;
    EXPECT_EQ(ValuesOf(received.transfer), values) << fault;
    received.transfer = ReceivedTransfer();
    EXPECT_EQ(emulator_.Calls("ncclMemAlloc"), 1) << fault;
    send_.reset();
    receive_.reset();
  }
}

// --- the engine's stream -----------------------------------------------------

// A stream of the emulator whose work waits for the test.
class ComputeStream {
 public:
  ComputeStream()
      : libraries_(nccl::Libraries::Open(nccl::testing::EmulatorPath(),
                                         nccl::testing::EmulatorPath())
                       .value()) {
    library_ = dlopen(nccl::testing::EmulatorPath().c_str(), RTLD_NOW);
    EXPECT_EQ(libraries_->cuda.cudaStreamCreateWithFlags(&stream_, 0),
              cudaSuccess);
  }
  ~ComputeStream() { libraries_->cuda.cudaStreamDestroy(stream_); }

  void* stream() const { return stream_; }
  // Adds work that waits for `go` and then does `work`.
  void Add(Notification* go, std::function<void()> work) {
    auto* const launch = reinterpret_cast<decltype(&cudaLaunchHostFunc)>(
        dlsym(library_, "cudaLaunchHostFunc"));
    auto* const task = new std::function<void()>([go, work] {
      go->WaitForNotification();
      work();
    });
    launch(
        stream_,
        [](void* data) {
          auto* const run = static_cast<std::function<void()>*>(data);
          (*run)();
          delete run;
        },
        task);
  }

 private:
  const std::shared_ptr<const nccl::Libraries> libraries_;
  void* library_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_F(NcclFaultsTest, ASendWaitsForWhatTheEngineStillComputes) {
  ComputeStream compute;
  settings_a_.compute_stream = [&] { return compute.stream(); };
  MakeEndpoints();
  ASSERT_TRUE(Open().ok());
  Notification go;
  std::vector<int64_t> values = {0};
  compute.Add(&go, [&] { values[0] = 42; });
  Outcome sent;
  Outcome received;
  receive_->PostReceive(IntoReceive(&received));
  send_->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(emulator_.AwaitCalls("ncclRecv", 1));
  Settle();
  EXPECT_EQ(received.calls, 0);
  go.Notify();
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_THAT(ValuesOf(received.transfer), ElementsAre(42));
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
}

TEST_F(NcclFaultsTest, ASlotIsNotWrittenWhileTheEngineReadsIt) {
  ComputeStream compute;
  settings_b_.compute_stream = [&] { return compute.stream(); };
  MakeEndpoints();
  ASSERT_TRUE(Open(/*slots=*/1).ok());
  const std::vector<int64_t> first = {1};
  const std::vector<int64_t> second = {2};
  std::array<Outcome, 2> sent;
  std::array<Outcome, 2> received;
  for (Outcome& outcome : received)
    receive_->PostReceive(IntoReceive(&outcome));
  send_->PostSend(HeaderOf(0), {TensorOver(first)}, Into(&sent[0]));
  send_->PostSend(HeaderOf(1), {TensorOver(second)}, Into(&sent[1]));
  ASSERT_TRUE(Until([&] { return received[0].calls == 1; }));
  Notification go;
  int64_t read = 0;
  const auto* const slot =
      static_cast<const int64_t*>(received[0].transfer.tensors[0].data);
  compute.Add(&go, [&] { read = *slot; });
  received[0].transfer = ReceivedTransfer();
  ASSERT_TRUE(emulator_.AwaitCalls("ncclRecv", 2));
  Settle();
  EXPECT_EQ(received[1].calls, 0);
  go.Notify();
  ASSERT_TRUE(Until([&] { return received[1].calls == 1; }));
  EXPECT_EQ(read, 1);
  EXPECT_THAT(ValuesOf(received[1].transfer), ElementsAre(2));
  ASSERT_TRUE(Until([&] { return sent[1].calls == 1; }));
  received[1].transfer = ReceivedTransfer();
}

// --- the order of communicators ----------------------------------------------

// Three edges, both ways, opened from both sides at once.
TEST_F(NcclFaultsTest, CommunicatorsAreMadeInTheGlobalOrder) {
  const std::vector<std::string> order = {"0->1", "1->0", "0->1 again"};
  EndpointOptions options_a = testing::OptionsFor(bell_.get(), &lost_a_);
  EndpointOptions options_b = testing::OptionsFor(bell_.get(), &lost_b_);
  options_a.opening_order = order;
  options_b.opening_order = order;
  a_ = NewEmulatedEndpoint(options_a, settings_a_).value();
  b_ = NewEmulatedEndpoint(options_b, settings_b_).value();
  auto there = b_->OpenReceive(PoolNamed("0->1", 1, 64)).value();
  auto back = a_->OpenReceive(PoolNamed("1->0", 1, 64)).value();
  auto again = b_->OpenReceive(PoolNamed("0->1 again", 1, 64)).value();
  std::unique_ptr<SendEdge> sends[3];
  std::thread opener([&] {
    // Asked for last to first: each waits for its turn.
    sends[1] =
        b_->OpenSend(EdgeNamed("1->0"), a_->Describe(), nullptr, kTestDeadline)
            .value();
  });
  std::thread late([&] {
    sends[2] = a_->OpenSend(EdgeNamed("0->1 again"), b_->Describe(), nullptr,
                            kTestDeadline)
                   .value();
  });
  sends[0] =
      a_->OpenSend(EdgeNamed("0->1"), b_->Describe(), nullptr, kTestDeadline)
          .value();
  opener.join();
  late.join();
  EXPECT_EQ(emulator_.Calls("ncclCommInitRankConfig"), 6);
}

}  // namespace
}  // namespace stagecoach::transport
