#ifndef STAGECOACH_BENCHMARKS_CHANNEL_PING_PONG_BASELINES_H_
#define STAGECOACH_BENCHMARKS_CHANNEL_PING_PONG_BASELINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stagecoach::benchmarks {

double Median(std::vector<double> values);
double NowMicroseconds();

// Keeps the calling thread, and those that it makes, on one core: the two ends
// on one core would take turns there, by the scheduler's slices of milliseconds
// where they spin, and save what it costs to wake another core where they do
// not. Does nothing on a machine with fewer cores than two.
void PinTo(int core);

// Microseconds to copy `bytes` that another core has just written: median of
// `rounds`.
double MemcpyMicroseconds(size_t bytes, int rounds);

// A plain blocking socket over loopback, as a first program would use it:
// writes and reads of the whole message. One side listens and prints where; the
// other connects.
class SocketPingPong {
 public:
  // Listens on 127.0.0.1.
  SocketPingPong();
  ~SocketPingPong();
  int port() const { return port_; }
  void Accept();
  static SocketPingPong Connect(int port);
  SocketPingPong(SocketPingPong&& other) noexcept;

  // Half a round trip: median of `rounds`.
  double Measure(size_t bytes, int rounds);
  // The other side of Measure.
  void Answer(size_t bytes, int rounds);

 private:
  explicit SocketPingPong(int fd) : fd_(fd) {}
  int listener_ = -1;
  int fd_ = -1;
  int port_ = 0;
};

}  // namespace stagecoach::benchmarks

#endif  // STAGECOACH_BENCHMARKS_CHANNEL_PING_PONG_BASELINES_H_
