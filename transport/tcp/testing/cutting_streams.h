#ifndef STAGECOACH_TRANSPORT_TCP_TESTING_CUTTING_STREAMS_H_
#define STAGECOACH_TRANSPORT_TCP_TESTING_CUTTING_STREAMS_H_

#include <cstdint>
#include <memory>
#include <random>

#include "base/mutex.h"
#include "transport/tcp/byte_stream.h"

namespace stagecoach::transport::tcp {

// A test double of a bad network, inside one process: breaks the streams that
// this side has dialled, each after a random number of bytes, so many times in
// all. Thread-safe; its streams hold it.
class CuttingStreams : public std::enable_shared_from_this<CuttingStreams> {
 public:
  // Each after 1 to `longest_bytes`, both directions together. That must be far
  // more than a transfer has, or none gets through.
  CuttingStreams(uint64_t seed, int cuts, int64_t longest_bytes)
      : longest_bytes_(longest_bytes), random_(seed), left_(cuts) {}

  // For TcpOptions::new_stream.
  StreamFactory Factory();

 private:
  class Stream;

  int64_t NextLimit() SC_EXCLUDES(mu_);
  // Whether this one may be broken.
  bool TakeCut() SC_EXCLUDES(mu_);

  const int64_t longest_bytes_;
  Mutex mu_;
  std::mt19937_64 random_ SC_GUARDED_BY(mu_);
  int left_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_TESTING_CUTTING_STREAMS_H_
