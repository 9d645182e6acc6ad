#ifndef STAGECOACH_BASE_PROCESS_IDENTITY_H_
#define STAGECOACH_BASE_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stagecoach {

// Which process a number meant when it was written down. Numbers are given
// again; the time at which a process started, within one boot, is not.
struct ProcessIdentity {
  pid_t pid = 0;
  int64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  std::string boot_id;      // of the kernel
};

// kNotFound if there is no such process, or only its remains (a zombie).
absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid);

// Whether that very process still runs.
bool IsRunning(const ProcessIdentity& process);

// A hold on a process that is not our child. Its number may be given to another
// process meanwhile; that one is never signalled. Thread-compatible.
class ForeignProcess {
 public:
  // kNotFound if that very process has ended.
  static absl::StatusOr<ForeignProcess> Open(const ProcessIdentity& process);
  ForeignProcess(ForeignProcess&& other) noexcept;
  ForeignProcess& operator=(ForeignProcess&&) = delete;
  ~ForeignProcess();

  // kNotFound once it has ended.
  absl::Status Signal(int signal);
  // Blocks; whether it has ended by then.
  bool WaitForEnd(absl::Duration timeout);

 private:
  explicit ForeignProcess(int pidfd) : pidfd_(pidfd) {}

  int pidfd_ = -1;
};

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_PROCESS_IDENTITY_H_
