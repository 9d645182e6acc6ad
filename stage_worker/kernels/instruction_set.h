#ifndef STAGECOACH_STAGE_WORKER_KERNELS_INSTRUCTION_SET_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_INSTRUCTION_SET_H_

// Compiles a kernel once for each instruction set and calls the best that the
// machine has. A kernel is a struct with `static SC_ALWAYS_INLINE void
// Run(...)`; see layer_norm.cc.
//
// By attributes of functions and not by compiler options of a file: an inline
// function of the standard library that a file compiled for AVX-512 would
// otherwise be linked for everybody. Not by target_clones: sanitizers do not
// survive its resolvers.
namespace stagecoach::worker::kernels {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// Of this machine; always the same.
inline InstructionSet BestInstructionSet() {
#if defined(__x86_64__)
  static const InstructionSet best = [] {
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq")) {
      return InstructionSet::kAvx512;
    }
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
               ? InstructionSet::kAvx2
               : InstructionSet::kBaseline;
  }();
  return best;
#else
  return InstructionSet::kBaseline;
#endif
}

#if defined(__x86_64__)
template <typename Kernel, typename... Arguments>
__attribute__((target("avx512f,avx512dq,avx2,fma"))) void RunOnAvx512(
    Arguments... arguments) {
  Kernel::Run(arguments...);
}
template <typename Kernel, typename... Arguments>
__attribute__((target("avx2,fma"))) void RunOnAvx2(Arguments... arguments) {
  Kernel::Run(arguments...);
}
#endif

template <typename Kernel, typename... Arguments>
void RunKernel(Arguments... arguments) {
#if defined(__x86_64__)
  switch (BestInstructionSet()) {
    case InstructionSet::kAvx512:
      return RunOnAvx512<Kernel>(arguments...);
    case InstructionSet::kAvx2:
      return RunOnAvx2<Kernel>(arguments...);
    case InstructionSet::kBaseline:
      break;
  }
#endif
  Kernel::Run(arguments...);
}

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_INSTRUCTION_SET_H_
