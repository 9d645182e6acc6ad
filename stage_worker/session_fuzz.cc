// Fuzz target of what the coordinator sends to a worker: any message in any
// order. Whatever comes, the worker lets go of everything when told to.
//
// The input is a list of steps: a byte that says what happens, then what it
// needs. Most messages get the right fence, or nothing would get past it. A
// placement of several workers is built, but not connected: its peers are not
// there.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/serial_executor.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "job/plan.h"
#include "job/spec_proto.h"
#include "memory/accounting_allocator.h"
#include "schedule/formats/formats.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"
#include "stage_worker/job_logs.h"
#include "stage_worker/session.h"
#include "stage_worker/testing/placement_rig.h"
#include "transport/loopback/loopback.h"

namespace stagecoach::worker {
namespace {

using fuzzing::FuzzInput;
using fuzzing::Require;

constexpr uint64_t kIncarnation = 77;
constexpr int kMostSteps = 100;
// Enough for a small job; a larger one is refused like any that does not fit.
constexpr int64_t kMemoryBytes = 1 << 18;
constexpr int64_t kMostChunks = 512;
// Pools come from the machine's memory, not from the allocator.
constexpr int64_t kMostSlotBytes = 4096;
constexpr int32_t kMostSlots = 4;

class NoData final : public DataSource {
 public:
  absl::StatusOr<TokenBatch> Read(StepIndex, MicrobatchIndex) override {
    return TokenBatch();
  }
  int64_t samples() const override { return 1; }
};

bool LogNothing() {
  LogOptions options;
  options.level = LogLevel::kOff;
  InitLog(options);
  return true;
}

// Bounds the time of one placement.
bool IsSmall(const job::JobSpec& spec) {
  return spec.stages() * spec.training.microbatches <= kMostChunks;
}

class Worker {
 public:
  Worker() : allocator_(MemoryOptions()) {
    SessionOptions options;
    options.worker = "w0";
    options.incarnation = Incarnation(kIncarnation);
    options.parts.allocator = &allocator_;
    options.parts.clock = &clock_;
    Transport loopback;
    loopback.kind = "loopback";
    loopback.factory = [this](const transport::EndpointOptions& endpoint) {
      return hub_.NewEndpoint(endpoint);
    };
    options.parts.transports = {loopback};
    options.parts.data_factory = [](const job::JobSpec& spec)
        -> absl::StatusOr<std::unique_ptr<DataSource>> {
      if (!IsSmall(spec)) return absl::ResourceExhaustedError("too large");
      return std::make_unique<NoData>();
    };
    options.parts.engine_factory = [this](const EngineOptions& engine)
        -> absl::StatusOr<std::unique_ptr<StageEngine>> {
      return NewSyntheticEngine(SyntheticOptions(), &allocator_, engine);
    };
    options.executor = &executor_;
    options.engine = &engine_;
    options.files = &files_;
    options.directory = &directory_;
    options.logs = &logs_;
    options.send = [](const v1::WorkerMessage& message) {
      Require(message.message_case() != v1::WorkerMessage::MESSAGE_NOT_SET,
              "an empty message to the coordinator");
    };
    options.on_welcome = [](int64_t) {};
    options.on_shutdown = [](const std::string&) {};
    session_ = std::make_shared<Session>(options);
  }

  void Step(FuzzInput* input) {
    const uint8_t what = input->Byte();
    v1::CoordinatorMessage message;
    switch (what % 16) {
      case 0:
        session_->OnConnected();
        break;
      case 1:
        session_->OnDisconnected(absl::UnavailableError("fuzzed"));
        break;
      case 2:
        session_->SendHeartbeat();
        break;
      case 3:
        SmallJob(1 + input->Below(3), message.mutable_assign());
        ++epoch_;
        Deliver(std::move(message), /*fenced=*/true);
        break;
      case 4:
        message.mutable_connect();
        Deliver(std::move(message), /*fenced=*/true);
        break;
      case 5:
        message.mutable_step_begin()->set_target_tokens(8);
        Deliver(std::move(message), /*fenced=*/true);
        break;
      case 6:
        message.mutable_step_commit()->set_clip_factor(1);
        Deliver(std::move(message), /*fenced=*/true);
        break;
      case 7:
        ++epoch_;
        break;
      case 8:
        Parse(input->Record(), &message);
        Deliver(std::move(message), /*fenced=*/false);
        break;
      case 11:
        Reschedule(input->Below(2) == 1 ? "gpipe" : "zb-h1",
                   message.mutable_reschedule());
        Deliver(std::move(message), /*fenced=*/true);
        break;
      case 10:
        job::ToProto(RigSpec(1, "1f1b", 2),
                     message.mutable_profile()->mutable_spec());
        message.mutable_profile()->set_measure(input->Below(2) == 1);
        ++epoch_;
        Deliver(std::move(message), /*fenced=*/true);
        break;
      default:
        Parse(input->Record(), &message);
        Deliver(std::move(message), /*fenced=*/true);
    }
    // Sometimes more than one thing happens at a time.
    if (what < 192) RunAll();
  }

  void Finish() {
    session_->OnDisconnected(absl::UnavailableError("the end"));
    RunAll();
    // The placement outlives the stream, but not the session.
    bool stopped = false;
    session_->Stop([&stopped] { stopped = true; });
    RunAll();
    Require(stopped, "does not stop");
    Require(allocator_.Stats().allocated_bytes.current == 0,
            "memory is left behind");
  }

 private:
  static memory::AccountingAllocator::Options MemoryOptions() {
    memory::AccountingAllocator::Options options;
    options.limit_bytes = kMemoryBytes;
    return options;
  }

  static void SmallJob(int workers, v1::Assign* assign) {
    const job::JobSpec spec = RigSpec(workers, "1f1b", 2);
    const job::JobPlan plan = job::PlanJob(spec, nullptr).value();
    job::ToProto(spec, assign->mutable_spec());
    schedule::ToProto(plan.schedule, assign->mutable_schedule());
    v1::AssignedStage* stage = assign->add_stages();
    stage->set_layer_begin(plan.stages[0].begin);
    stage->set_layer_end(plan.stages[0].end);
    for (int w = 0; w < workers; ++w) assign->add_peers();
    assign->set_slot_bytes(plan.boundary.bytes());
  }

  static void Reschedule(const char* kind, v1::Reschedule* reschedule) {
    const job::JobPlan plan =
        job::PlanJob(RigSpec(1, kind, 2), nullptr).value();
    schedule::ToProto(plan.schedule, reschedule->mutable_schedule());
  }

  static void Parse(absl::string_view bytes, v1::CoordinatorMessage* message) {
    if (!message->ParseFromArray(bytes.data(),
                                 static_cast<int>(bytes.size()))) {
      message->Clear();
    }
  }

  void Deliver(v1::CoordinatorMessage message, bool fenced) {
    if (fenced) {
      message.mutable_fence()->set_term(term_);
      message.mutable_fence()->set_epoch(epoch_);
      message.mutable_fence()->set_incarnation(kIncarnation);
    }
    if (message.has_connect() && peers_ != 1) return;
    if (message.has_assign() && TakesAssignments()) {
      if (message.assign().slot_bytes() > kMostSlotBytes) return;
      peers_ = message.assign().peers_size();
      KeepPoolsSmall(message.mutable_assign());
    }
    if (message.has_welcome()) term_ = message.welcome().term();
    session_->OnMessage(message);
  }

  bool TakesAssignments() const {
    return session_->state() == SessionState::kIdle ||
           session_->state() == SessionState::kProfiled;
  }
  static void KeepPoolsSmall(v1::Assign* assign) {
    if (assign->has_schedule()) {
      for (v1::EdgePlan& edge : *assign->mutable_schedule()->mutable_edges()) {
        edge.set_pool_slots(std::min(edge.pool_slots(), kMostSlots));
      }
    }
    if (assign->spec().has_model()) {
      v1::ModelSpec* model = assign->mutable_spec()->mutable_model();
      model->set_vocabulary(std::min<int64_t>(model->vocabulary(), 300));
      model->set_hidden(std::min<int64_t>(model->hidden(), 64));
    }
  }

  void RunAll() {
    while (engine_.RunAll() + executor_.RunAll() > 0) {
    }
  }

  SimulatedClock clock_;
  memory::AccountingAllocator allocator_;
  transport::LoopbackHub hub_;
  ManualExecutor executor_;
  ManualExecutor engine_;
  ManualExecutor files_;  // never run: nothing is written
  PeerDirectory directory_;
  JobLogs logs_;
  int64_t term_ = 1;
  int64_t epoch_ = 0;
  int peers_ = 0;
  std::shared_ptr<Session> session_;
};

}  // namespace
}  // namespace stagecoach::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace worker = stagecoach::worker;
  static const bool quiet = worker::LogNothing();
  (void)quiet;
  stagecoach::fuzzing::FuzzInput input(data, size);
  worker::Worker subject;
  for (int i = 0; i < worker::kMostSteps && !input.empty(); ++i) {
    subject.Step(&input);
  }
  subject.Finish();
  return 0;
}
