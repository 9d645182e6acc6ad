#include "stage_worker/kernels/choice.h"

namespace stagecoach::worker::kernels {
namespace {

// MKL takes its AVX-512 kernels on Intel's processors alone.
bool MklIsAtItsBest() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace

job::KernelChoice Resolve(job::KernelChoice asked, bool on_cpu) {
  if (!on_cpu) return job::KernelChoice::kAten;
  if (asked != job::KernelChoice::kAuto) return asked;
  return job::KernelChoice::kOneDnn;
}

bool IsOwn(job::KernelChoice choice) {
  return choice == job::KernelChoice::kOneDnn;
}

GemmLibrary LibraryOf(job::KernelChoice /*choice*/) {
  return HasOneDnn() && !MklIsAtItsBest() ? GemmLibrary::kOneDnn
                                          : GemmLibrary::kMkl;
}

}  // namespace stagecoach::worker::kernels
