#ifndef STAGECOACH_TRANSPORT_TCP_CRC32C_H_
#define STAGECOACH_TRANSPORT_TCP_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace stagecoach::transport::tcp {

// CRC-32C (Castagnoli) as in RFC 3720, appendix B.4. `crc` is the checksum of
// the bytes before these, 0 at the start. Uses the processor's instruction
// where there is one.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t bytes);
inline uint32_t Crc32c(const void* data, size_t bytes) {
  return ExtendCrc32c(0, data, bytes);
}

// The way without the instruction, for its test.
uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t bytes);

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_CRC32C_H_
