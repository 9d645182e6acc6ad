#ifndef STAGECOACH_STAGE_WORKER_KERNELS_CHOICE_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_CHOICE_H_

#include "job/job_spec.h"
#include "stage_worker/kernels/gemm.h"

namespace stagecoach::worker::kernels {

// What `asked` means on this machine. On anything but a CPU there are no own
// kernels.
job::KernelChoice Resolve(job::KernelChoice asked, bool on_cpu);

// Whether blocks are own nodes. `choice` is resolved: kAuto counts as kAten.
bool IsOwn(job::KernelChoice choice);
// Of own nodes.
GemmLibrary LibraryOf(job::KernelChoice choice);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_CHOICE_H_
