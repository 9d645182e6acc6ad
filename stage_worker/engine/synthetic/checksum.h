#ifndef STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_CHECKSUM_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

namespace stagecoach::worker {

// The arithmetic of the synthetic engine. Equal on every machine of one byte
// order.

// One number that depends on both, and on their order.
uint64_t Mix(uint64_t a, uint64_t b);
// One number that depends on every byte and its place.
uint64_t Checksum(const uint8_t* bytes, size_t size);

// What a stage does to a microbatch: a mapping of `size` bytes under a key that
// Unstir undoes. `out` may be `in`.
void Stir(const uint8_t* in, size_t size, uint64_t key, uint8_t* out);
void Unstir(const uint8_t* in, size_t size, uint64_t key, uint8_t* out);
// Turns an activation into the gradient that stands for it, and back.
void Invert(const uint8_t* in, size_t size, uint8_t* out);

// Uniform in [0, 1), from the upper 53 bits.
double ToUnit(uint64_t number);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_CHECKSUM_H_
