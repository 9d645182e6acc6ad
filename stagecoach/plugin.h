#ifndef STAGECOACH_PLUGIN_H_
#define STAGECOACH_PLUGIN_H_

// Stages of your own, in a shared library that is built outside Stagecoach's
// tree against this header and libtorch. docs/plugins.md is the guide,
// examples/plugin a whole one.
//
//   class MyStage : public stagecoach::plugin::Stage { ... };
//   STAGECOACH_PLUGIN([](const stagecoach::plugin::StageInfo& info) {
//     return std::make_unique<MyStage>(info);
//   })
//
// A job names the library: model.architecture = "plugin", model.path = "...".

#include <ATen/core/Tensor.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stagecoach::plugin {

// Grows with every change of what is below.
constexpr int kInterfaceVersion = 1;

// The slice of the model that one stage runs, and what the job says.
struct StageInfo {
  int64_t layer_begin = 0;  // of `layers`
  int64_t layer_end = 0;    // may be layer_begin: no layer at all
  bool first = false;       // is given the samples
  bool last = false;        // computes the loss
  int64_t layers = 0;       // model.layers
  int64_t hidden = 0;       // model.hidden; 0 if not given
  int64_t heads = 0;        // model.heads; 0 if not given
  int64_t vocabulary = 0;
  int64_t sequence_length = 0;
  std::string options;  // model.options
  int64_t seed = 0;
};

// Where a training run is. Random numbers that depend on nothing else (and on
// the layer) are the same for any number of workers and in a forward that is
// run again.
struct Position {
  bool training = true;  // else: an evaluation, without gradients
  int64_t step = 0;
  int64_t microbatch = 0;
};

// A leaf that requires a gradient, filled with its first values. Values must
// not depend on how the model is cut: draw them from a generator of their own,
// seeded by StageInfo::seed and the name.
struct Parameter {
  std::string name;  // unique in the whole model
  at::Tensor value;  // float32, contiguous
};

// One stage. Called by one thread at a time. What it throws ends the job, with
// its words.
class Stage {
 public:
  virtual ~Stage() = default;

  // In the model's order: a stage's come behind those of the stages before it.
  // Called once, before the first Forward. Stagecoach moves the values into
  // memory of its own and gives them gradients; tensors and modules that hold
  // them stay valid, but must not be replaced.
  virtual std::vector<Parameter> parameters() = 0;

  // `inputs`: the first stage is given tokens, int64 [rows, sequence_length];
  // any other what the stage before it returned. `targets`: int64, of the last
  // stage: [rows, sequence_length] with data.targets = "next", [rows] with
  // "last". The result is one tensor, float32 [rows, model.boundary ...], or
  // those of model.boundaries; of the last stage, a scalar: the sum (not the
  // mean) of the losses of all targets. Plain PyTorch under autograd.
  virtual std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                          const at::Tensor& targets,
                                          const Position& position) = 0;
};

using NewStage = std::unique_ptr<Stage> (*)(const StageInfo& info);

// What a library exports as stagecoach_plugin().
struct Library {
  int interface_version = kInterfaceVersion;
  // Both sides must use one libtorch.
  const char* torch_version = TORCH_VERSION;
  NewStage new_stage = nullptr;
};

}  // namespace stagecoach::plugin

#define STAGECOACH_PLUGIN(...)                                \
  extern "C" __attribute__((visibility("default")))           \
  const ::stagecoach::plugin::Library*                        \
  stagecoach_plugin() {                                       \
    static const ::stagecoach::plugin::Library library = [] { \
      ::stagecoach::plugin::Library made;                     \
      made.new_stage = __VA_ARGS__;                           \
      return made;                                            \
    }();                                                      \
    return &library;                                          \
  }

#endif  // STAGECOACH_PLUGIN_H_
