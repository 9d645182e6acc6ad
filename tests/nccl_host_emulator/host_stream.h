#ifndef STAGECOACH_TESTS_NCCL_HOST_EMULATOR_HOST_STREAM_H_
#define STAGECOACH_TESTS_NCCL_HOST_EMULATOR_HOST_STREAM_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace nccl_host_emulator {

// A CUDA stream: what is put into it runs in order, on a thread of its own.
// Thread-safe.
class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  using Work = std::function<void()>;

  static std::shared_ptr<HostStream> Create();
  void Add(Work work);
  // Returns once all that was added before has run.
  void Synchronize();
  // What was added still runs; then the thread ends.
  void Close();

 private:
  HostStream() = default;
  void Loop();

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool closed_ = false;
};

// A CUDA event: the last point at which it was recorded. Thread-safe.
class HostEvent {
 public:
  // Null is the default stream, which has nothing in it.
  void Record(HostStream* stream, const std::shared_ptr<HostEvent>& self);
  bool HasPassed();
  // What is added to `stream` from now on waits for the point.
  void HoldBack(HostStream* stream, const std::shared_ptr<HostEvent>& self);

 private:
  void Pass(uint64_t point);
  void WaitFor(uint64_t point);

  std::mutex mu_;
  std::condition_variable changed_;
  uint64_t recorded_ = 0;
  uint64_t passed_ = 0;
};

}  // namespace nccl_host_emulator

#endif  // STAGECOACH_TESTS_NCCL_HOST_EMULATOR_HOST_STREAM_H_
