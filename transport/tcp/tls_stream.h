#ifndef STAGECOACH_TRANSPORT_TCP_TLS_STREAM_H_
#define STAGECOACH_TRANSPORT_TCP_TLS_STREAM_H_

#include <cstdint>
#include <memory>

#include "base/tls_identity.h"
#include "transport/tcp/byte_stream.h"

namespace stagecoach::transport::tcp {

// A key encrypts so many records (16 GiB) before the next one is agreed on;
// with AES-GCM no more than 2^24.5 should be (RFC 8446, 5.5).
inline constexpr int64_t kRecordsPerKey = int64_t{1} << 20;

// Streams of TLS 1.3 over the sockets that NewPlainStream would take. Both
// sides show a certificate, and each refuses one that the authority of
// `identity` has not issued: kUnauthenticated from the first read or write that
// learns of it. The dialling side looks at the name, too, if the identity has
// one.
StreamFactory NewTlsStreams(std::shared_ptr<const TlsIdentity> identity,
                            int64_t records_per_key = kRecordsPerKey);

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_TLS_STREAM_H_
