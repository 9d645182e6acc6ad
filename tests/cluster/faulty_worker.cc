// A stage worker with faults, for tests: the real program with some parts
// wrapped. Each is switched on by an environment variable:
//
//   FAULTS=PLAN      transport::FaultPlan of the data path
//   FAULTS_ONCE=1    of the first placement's only
//   TANH=1           every stage but the last ends in tanh, which saves its
//                    own result for backward
//   LEAK_OUTPUT=N    keeps one more reference to the N-th output, from 1
//   SLOW_ACTION_MS=N every forward takes N milliseconds longer
//   CUT_TCP="SEED CUTS BYTES" breaks its own TCP connections so many times,
//                    each after up to so many bytes
#include <ATen/ATen.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "stage_worker/engine/torch/torch_engine.h"
#include "stage_worker/model/stage_model.h"
#include "stage_worker/worker_main.h"
#include "tests/cluster/forwarding_engine.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/testing/cutting_streams.h"
#include "transport/testing/faulty_endpoint.h"

namespace stagecoach::testing {
namespace {

using worker::EngineOptions;
using worker::PlacementParts;
using worker::StageEngine;
using worker::TensorRef;

const char* Setting(const char* name) { return std::getenv(name); }

class TanhStage final : public worker::StageModel {
 public:
  explicit TanhStage(std::unique_ptr<worker::StageModel> inner)
      : inner_(std::move(inner)) {}
  std::vector<worker::StageParameter*> parameters() override {
    return inner_->parameters();
  }
  std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                  const at::Tensor& targets) override {
    std::vector<at::Tensor> outputs =
        inner_->Forward(std::move(inputs), targets);
    if (!targets.defined()) outputs.front() = at::tanh(outputs.front());
    return outputs;
  }

 private:
  const std::unique_ptr<worker::StageModel> inner_;
};

absl::StatusOr<std::unique_ptr<worker::StageModel>> NewTanhStage(
    const job::JobSpec& spec, const worker::StageAssignment& stage) {
  SC_ASSIGN_OR_RETURN(std::unique_ptr<worker::StageModel> inner,
                      worker::NewGpt2Stage(spec, stage));
  return std::unique_ptr<worker::StageModel>(
      std::make_unique<TanhStage>(std::move(inner)));
}

class LeakyEngine final : public ForwardingEngine {
 public:
  LeakyEngine(std::unique_ptr<StageEngine> inner, int leak_at)
      : ForwardingEngine(std::move(inner)), leak_at_(leak_at) {}
  absl::StatusOr<std::vector<TensorRef>> Forward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> inputs) override {
    SC_ASSIGN_OR_RETURN(
        std::vector<TensorRef> outputs,
        ForwardingEngine::Forward(stage, microbatch, std::move(inputs)));
    if (!outputs.empty() && ++produced_ == leak_at_) leaked_ = outputs.front();
    return outputs;
  }
  // The leak is one of ordinary memory.
  void OfferOutput(worker::OutputSlot /*slot*/) override {}

 private:
  const int leak_at_;
  int produced_ = 0;
  TensorRef leaked_;
};

class SlowEngine final : public ForwardingEngine {
 public:
  SlowEngine(std::unique_ptr<StageEngine> inner, int milliseconds)
      : ForwardingEngine(std::move(inner)), milliseconds_(milliseconds) {}
  absl::StatusOr<std::vector<TensorRef>> Forward(
      StageIndex stage, MicrobatchIndex microbatch,
      std::vector<TensorRef> inputs) override {
    // Stands for computation: tests kill the worker inside it.
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    return ForwardingEngine::Forward(stage, microbatch, std::move(inputs));
  }

 private:
  const int milliseconds_;
};

template <typename Engine>
void WrapEngine(PlacementParts* parts, int argument) {
  parts->engine_factory = [inner = parts->engine_factory,
                           argument](const EngineOptions& options)
      -> absl::StatusOr<std::unique_ptr<StageEngine>> {
    SC_ASSIGN_OR_RETURN(std::unique_ptr<StageEngine> engine, inner(options));
    return std::unique_ptr<StageEngine>(
        std::make_unique<Engine>(std::move(engine), argument));
  };
}

void WrapEndpoint(PlacementParts* parts, const std::string& text) {
  auto plan = transport::FaultPlan::Parse(text);
  if (!plan.ok()) {
    std::fprintf(stderr, "FAULTS: %s\n", plan.status().ToString().c_str());
    std::exit(2);
  }
  const bool once = Setting("FAULTS_ONCE") != nullptr;
  for (worker::Transport& transport : parts->transports) {
    transport.factory = [inner = transport.factory, plan = *plan, once,
                         made = std::make_shared<std::atomic<int>>(0)](
                            const transport::EndpointOptions& options)
        -> absl::StatusOr<std::unique_ptr<transport::Endpoint>> {
      SC_ASSIGN_OR_RETURN(std::unique_ptr<transport::Endpoint> real,
                          inner(options));
      if (once && ++*made > 1) return real;
      return transport::MakeFaultyEndpoint(std::move(real), options, plan);
    };
  }
}

void CutTcp(PlacementParts* parts, const std::string& text) {
  uint64_t seed = 0;
  int cuts = 0;
  int64_t bytes = 0;
  std::istringstream in(text);
  if (!(in >> seed >> cuts >> bytes) || cuts < 0 || bytes < 1) {
    std::fprintf(stderr, "CUT_TCP: not \"SEED CUTS BYTES\": %s\n",
                 text.c_str());
    std::exit(2);
  }
  transport::TcpOptions options;
  options.new_stream =
      std::make_shared<transport::tcp::CuttingStreams>(seed, cuts, bytes)
          ->Factory();
  for (worker::Transport& transport : parts->transports) {
    if (transport.kind != "tcp") continue;
    transport.factory = [options](const transport::EndpointOptions& endpoint) {
      return transport::NewTcpEndpoint(endpoint, options);
    };
  }
}

void AddFaults(PlacementParts* parts) {
  if (Setting("TANH") != nullptr) {
    parts->engine_factory = [](const EngineOptions& options) {
      worker::TorchOptions torch;
      torch.model_factory = NewTanhStage;
      return worker::NewTorchEngine(torch, options);
    };
  }
  if (const char* leak = Setting("LEAK_OUTPUT")) {
    WrapEngine<LeakyEngine>(parts, std::atoi(leak));
    // Its outputs are not counted.
    parts->profile_memory = false;
  }
  if (const char* slow = Setting("SLOW_ACTION_MS")) {
    WrapEngine<SlowEngine>(parts, std::atoi(slow));
  }
  if (const char* cuts = Setting("CUT_TCP")) CutTcp(parts, cuts);
  if (const char* faults = Setting("FAULTS")) WrapEndpoint(parts, faults);
}

}  // namespace
}  // namespace stagecoach::testing

int main(int argc, char** argv) {
  return stagecoach::worker::WorkerMain(argc, argv,
                                        stagecoach::testing::AddFaults);
}
