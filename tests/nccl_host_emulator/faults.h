#ifndef STAGECOACH_TESTS_NCCL_HOST_EMULATOR_FAULTS_H_
#define STAGECOACH_TESTS_NCCL_HOST_EMULATOR_FAULTS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

// The emulator is loaded into programs that have their own libraries, so it
// uses nothing but the standard one.
namespace nccl_host_emulator {

struct Fault {
  enum class Kind { kNone, kFail, kAsync, kHang, kDelay };
  Kind kind = Kind::kNone;
  int value = 0;  // code or milliseconds
};

// What emulator_control.h describes. Thread-safe.
class Faults {
 public:
  static Faults& Get();  // from the environment at first

  bool Set(const std::string& text);
  // Counts one call of this name, made for this device, and says what is to
  // happen to it.
  Fault Take(const char* call, int device);
  int Calls(const std::string& call);
  bool AwaitCalls(const std::string& call, int count, int milliseconds);
  int Setting(const char* name, int otherwise);
  // Blocks until the next Set.
  void Hang();
  // 0 to 2 ms where jitter is on, else 0.
  int JitterMicroseconds();

  void AddMisuse(const std::string& what);
  std::vector<std::string> TakeMisuses();

 private:
  struct Entry {
    std::string call;
    int nth = 0;  // 0: every
    Fault fault;
  };
  static bool Parse(const std::string& text, std::vector<Entry>* entries,
                    std::map<std::string, int>* settings);

  std::mutex mu_;
  std::condition_variable changed_;
  uint64_t generation_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, int> settings_;
  std::map<std::string, int> calls_;
  std::mt19937_64 random_;
  std::vector<std::string> misuses_;
};

}  // namespace nccl_host_emulator

#endif  // STAGECOACH_TESTS_NCCL_HOST_EMULATOR_FAULTS_H_
