#ifndef STAGECOACH_STAGE_WORKER_KERNELS_ROTARY_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_ROTARY_H_

#include <cstdint>

// Rotary position embedding (Su et al. 2021) of heads side by side, in place.
namespace stagecoach::worker::kernels {

template <typename T>
struct Rotation {
  // [sequence, width]; the second half of a row repeats the first.
  const T* cosine = nullptr;
  const T* sine = nullptr;
  int64_t sequence = 0;
  int64_t width = 0;  // of a head, even
};

// `x` is contiguous [tokens, heads * width], a token's position its index
// modulo the sequence. Element i of a head makes a pair with element i + width
// / 2.
template <typename T>
void Rotate(const Rotation<T>& rotation, int64_t tokens, int64_t heads, T* x);
// The gradient of what was rotated to that of what it was before.
template <typename T>
void RotateGradient(const Rotation<T>& rotation, int64_t tokens, int64_t heads,
                    T* gradient);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_ROTARY_H_
