#include "transport/tcp/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace stagecoach::transport::tcp {
namespace {

// 0x1EDC6F41 with its bits reversed.
constexpr uint32_t kPolynomial = 0x82F63B78;

// kTables[k][b]: what byte b contributes with k zero bytes behind it.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    }
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(
    uint32_t crc, const uint8_t* data, size_t bytes) {
  uint64_t state = ~crc;
  for (; bytes >= 8; bytes -= 8, data += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, sizeof(word));
    state = _mm_crc32_u64(state, word);
  }
  auto rest = static_cast<uint32_t>(state);
  for (; bytes > 0; --bytes, ++data) rest = _mm_crc32_u8(rest, *data);
  return ~rest;
}
#endif

}  // namespace

uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t bytes) {
  const auto* next = static_cast<const uint8_t*>(data);
  uint32_t state = ~crc;
  for (; bytes >= 8; bytes -= 8, next += 8) {
    uint32_t low = 0;
    uint32_t high = 0;
    std::memcpy(&low, next, sizeof(low));
    std::memcpy(&high, next + 4, sizeof(high));
    low ^= state;
    state = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^
            kTables[5][(low >> 16) & 0xFF] ^ kTables[4][low >> 24] ^
            kTables[3][high & 0xFF] ^ kTables[2][(high >> 8) & 0xFF] ^
            kTables[1][(high >> 16) & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; bytes > 0; --bytes, ++next) {
    state = (state >> 8) ^ kTables[0][(state ^ *next) & 0xFF];
  }
  return ~state;
}

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    return ExtendByInstruction(crc, static_cast<const uint8_t*>(data), bytes);
  }
#endif
  return ExtendCrc32cByTable(crc, data, bytes);
}

}  // namespace stagecoach::transport::tcp
