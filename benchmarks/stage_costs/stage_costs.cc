// What does a stage cost with own kernels, beside ATen's?
//
//     bazel run //benchmarks/stage_costs [-- REPETITIONS [SIZE]]
//
// A stage of two blocks from the middle of a GPT-2 (or of a Llama, for that
// size; beside PyTorch in Python: python_stage.py), on one thread: forward (F),
// backward (B), and backward in two halves (I, W), with either kind of kernels
// in turn. Printed is the shortest CPU time of the thread, which other load on
// the machine lengthens least, the ratios own to ATen's, and (I + W) / B.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/tensor_descriptor.h"
#include "job/boundary.h"
#include "job/job_spec.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/engine/torch/torch_engine.h"

namespace stagecoach::worker {
namespace {

constexpr StageIndex kStage{1};
constexpr MicrobatchIndex kMicrobatch{0};

double ThreadMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) +
         1e-6 * static_cast<double>(now.tv_nsec);
}

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (!status.ok()) Must<int>(status);
}

struct Size {
  const char* name;
  int64_t hidden;
  int64_t heads;
  int64_t sequence;
  int64_t rows;
  job::Architecture architecture = job::Architecture::kGpt2;
};
constexpr Size kSizes[] = {
    {"tiny", 64, 4, 32, 1},
    {"mid", 256, 8, 128, 2},
    {"large", 512, 8, 256, 2},
    {"gpt2", 768, 12, 512, 1},
    {"llama", 768, 12, 512, 1, job::Architecture::kLlama}};

struct Costs {
  double forward = std::numeric_limits<double>::infinity();
  double backward = std::numeric_limits<double>::infinity();
  double input = std::numeric_limits<double>::infinity();
  double weight = std::numeric_limits<double>::infinity();

  double whole() const { return forward + backward; }
};

class Stage {
 public:
  Stage(const Size& size, job::KernelChoice kernels) {
    EngineOptions options;
    job::JobSpec& spec = options.spec;
    spec.model.architecture = size.architecture;
    spec.model.layers = 4;
    spec.model.hidden = size.hidden;
    spec.model.heads = size.heads;
    spec.data.sequence_length = size.sequence;
    spec.training.microbatches = 1;
    spec.training.microbatch_size = size.rows;
    spec.training.kernels = kernels;
    StageAssignment stage;
    stage.stage = kStage;
    stage.layers.begin = 1;
    stage.layers.end = 3;
    options.stages = {stage};
    engine_ = Must(NewTorchEngine(TorchOptions(), options));
    boundary_ = job::BoundaryOf(spec).tensors[0];
  }

  void Measure(Costs* costs) {
    Begin(costs);
    Time(&costs->backward, [this] {
      return engine_->Backward(kStage, kMicrobatch, Received()).status();
    });
    engine_->Drop();
    Begin(costs);
    Time(&costs->input, [this] {
      return engine_->BackwardInput(kStage, kMicrobatch, Received()).status();
    });
    Time(&costs->weight,
         [this] { return engine_->BackwardWeight(kStage, kMicrobatch); });
    engine_->Drop();
  }

 private:
  void Begin(Costs* costs) {
    Must(engine_->BeginStep(StepIndex(0), /*target_tokens=*/1));
    Time(&costs->forward, [this] {
      return engine_->Forward(kStage, kMicrobatch, Received()).status();
    });
  }

  // Small numbers, as activations and gradients are.
  std::vector<TensorRef> Received() {
    const size_t bytes = (boundary_.bytes() + 63) / 64 * 64;
    std::shared_ptr<void> memory(std::aligned_alloc(64, bytes), std::free);
    auto* const numbers = static_cast<float*>(memory.get());
    for (size_t i = 0; i < boundary_.bytes() / sizeof(float); ++i) {
      numbers[i] = 0.01F * (static_cast<float>(i % 17) - 8);
    }
    return {Must(engine_->Adopt(boundary_, numbers, std::move(memory)))};
  }

  template <typename Work>
  void Time(double* shortest, const Work& work) {
    const double start = ThreadMilliseconds();
    Must(work());
    *shortest = std::min(*shortest, ThreadMilliseconds() - start);
  }

  std::unique_ptr<StageEngine> engine_;
  TensorDescriptor boundary_;
};

void Print(const char* size, const char* kernels, const Costs& costs) {
  absl::PrintF(
      "%-6s %-7s F %8.3f  B %8.3f  I %8.3f  W %8.3f ms   (I + W) / B %.3f\n",
      size, kernels, costs.forward, costs.backward, costs.input, costs.weight,
      (costs.input + costs.weight) / costs.backward);
}

void Run(const Size& size, int repetitions) {
  Stage aten(size, job::KernelChoice::kAten);
  Stage own(size, job::KernelChoice::kOneDnn);
  Costs of_aten;
  Costs of_own;
  for (int i = 0; i < repetitions; ++i) {
    aten.Measure(&of_aten);
    own.Measure(&of_own);
  }
  Print(size.name, "aten", of_aten);
  Print(size.name, "onednn", of_own);
  absl::PrintF("%-6s own / aten: F %.3f  B %.3f  F + B %.3f\n", size.name,
               of_own.forward / of_aten.forward,
               of_own.backward / of_aten.backward,
               of_own.whole() / of_aten.whole());
}

int Main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 30;
  Must(InitTorch(TorchOptions()));
  for (const Size& size : kSizes) {
    const bool chosen = argc <= 2 || absl::string_view(argv[2]) == size.name;
    if (chosen) Run(size, std::max(1, repetitions));
  }
  return 0;
}

}  // namespace
}  // namespace stagecoach::worker

int main(int argc, char** argv) { return stagecoach::worker::Main(argc, argv); }
