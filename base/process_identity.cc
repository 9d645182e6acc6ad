#include "base/process_identity.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/clock.h"

namespace stagecoach {
namespace {

// Of the fields behind the name: state, ..., start time.
constexpr size_t kStateField = 0;
constexpr size_t kStartField = 19;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string BootId() {
  return std::string(
      absl::StripSuffix(Contents("/proc/sys/kernel/random/boot_id"), "\n"));
}

absl::Status Gone(pid_t pid) {
  return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
}

}  // namespace

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid) {
  const std::string stat = Contents(absl::StrCat("/proc/", pid, "/stat"));
  // The name, in parentheses, may hold anything.
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return Gone(pid);
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 2), ' ');
  ProcessIdentity process;
  process.pid = pid;
  process.boot_id = BootId();
  if (fields.size() <= kStartField ||
      !absl::SimpleAtoi(fields[kStartField], &process.start_ticks)) {
    return absl::InternalError(
        absl::StrCat("/proc/", pid, "/stat is not as proc(5) says"));
  }
  if (fields[kStateField] == "Z" || fields[kStateField] == "X") {
    return Gone(pid);
  }
  return process;
}

bool IsRunning(const ProcessIdentity& process) {
  const absl::StatusOr<ProcessIdentity> now = IdentityOf(process.pid);
  return now.ok() && now->start_ticks == process.start_ticks &&
         now->boot_id == process.boot_id;
}

absl::StatusOr<ForeignProcess> ForeignProcess::Open(
    const ProcessIdentity& process) {
  // By number: glibc 2.36 declares these two without C linkage.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0 && errno != ESRCH) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot watch process ", process.pid));
  }
  if (fd < 0) return Gone(process.pid);
  ForeignProcess result(fd);
  // Only now: what the descriptor means cannot change any more.
  if (!IsRunning(process)) return Gone(process.pid);
  return result;
}

ForeignProcess::ForeignProcess(ForeignProcess&& other) noexcept
    : pidfd_(std::exchange(other.pidfd_, -1)) {}

ForeignProcess::~ForeignProcess() {
  if (pidfd_ >= 0) close(pidfd_);
}

absl::Status ForeignProcess::Signal(int signal) {
  if (syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0) == 0) {
    return absl::OkStatus();
  }
  if (errno == ESRCH) return absl::NotFoundError("the process has ended");
  return absl::ErrnoToStatus(errno, absl::StrCat("signal ", signal));
}

bool ForeignProcess::WaitForEnd(absl::Duration timeout) {
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  while (true) {
    const absl::Duration left = deadline - Clock::Real()->Now();
    const int64_t milliseconds =
        absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    pollfd entry = {pidfd_, POLLIN, 0};
    const int ready =
        poll(&entry, 1,
             static_cast<int>(std::clamp<int64_t>(milliseconds, 0, INT_MAX)));
    if (ready > 0) return true;
    if (ready == 0 && left <= absl::ZeroDuration()) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace stagecoach
