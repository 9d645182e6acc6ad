#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_MAPPED_BUFFER_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_MAPPED_BUFFER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace stagecoach::worker {

// Float32 zeros in a mapping of a file of their own in `directory`, which the
// kernel may write them to where memory is short. The file has no name: it goes
// with the tensor, also if the process is killed. Its blocks are reserved, so
// that a disk that fills up later cannot take them.
//
// Such bytes are not accounted: they are the page cache's. Throws
// std::runtime_error, with the directory and the remedy.
at::Tensor MappedZeros(const std::string& directory, int64_t elements);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_MAPPED_BUFFER_H_
