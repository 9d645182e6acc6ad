#include "stage_worker/engine/synthetic/checksum.h"

#include <cstring>

namespace stagecoach::worker {
namespace {

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;

// Newton's iteration doubles the number of right bits; an odd number is its own
// inverse in the lowest 3.
constexpr uint64_t InverseOf(uint64_t odd) {
  uint64_t inverse = odd;
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}
constexpr uint64_t kInverse = InverseOf(kOdd);
static_assert(kOdd * kInverse == 1);

uint64_t Load(const uint8_t* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

void Store(uint64_t word, uint8_t* bytes) {
  std::memcpy(bytes, &word, sizeof(word));
}

// Applies `word` to each 8 bytes, `byte` to what is left.
template <typename Word, typename Byte>
void ForEach(const uint8_t* in, size_t size, uint8_t* out, const Word& word,
             const Byte& byte) {
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= size; i += sizeof(uint64_t)) {
    Store(word(Load(in + i), uint64_t{i}), out + i);
  }
  for (; i < size; ++i) out[i] = byte(in[i], uint64_t{i});
}

}  // namespace

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t mixed = a * kOdd + b;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

uint64_t Checksum(const uint8_t* bytes, size_t size) {
  uint64_t sum = size;
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= size; i += sizeof(uint64_t)) {
    sum = (sum ^ Load(bytes + i)) * kOdd;
    sum ^= sum >> 32;
  }
  for (; i < size; ++i) sum = (sum ^ bytes[i]) * kOdd;
  return Mix(sum, size);
}

void Stir(const uint8_t* in, size_t size, uint64_t key, uint8_t* out) {
  ForEach(
      in, size, out,
      [key](uint64_t word, uint64_t i) { return (word ^ (key + i)) * kOdd; },
      [key](uint8_t byte, uint64_t i) {
        return static_cast<uint8_t>(byte ^ ((key + i) >> 32));
      });
}

void Unstir(const uint8_t* in, size_t size, uint64_t key, uint8_t* out) {
  ForEach(
      in, size, out,
      [key](uint64_t word, uint64_t i) {
        return (word * kInverse) ^ (key + i);
      },
      [key](uint8_t byte, uint64_t i) {
        return static_cast<uint8_t>(byte ^ ((key + i) >> 32));
      });
}

void Invert(const uint8_t* in, size_t size, uint8_t* out) {
  ForEach(
      in, size, out, [](uint64_t word, uint64_t) { return ~word; },
      [](uint8_t byte, uint64_t) { return static_cast<uint8_t>(~byte); });
}

double ToUnit(uint64_t number) {
  return static_cast<double>(number >> 11) * 0x1p-53;
}

}  // namespace stagecoach::worker
