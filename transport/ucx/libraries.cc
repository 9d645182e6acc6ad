#include "transport/ucx/libraries.h"

#include <dlfcn.h>

#include <array>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::ucx {
namespace {

template <typename Function>
absl::Status Find(void* library, const std::string& path, const char* name,
                  Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("ucx: ", path, " has no function ", name,
                   ", so it is too old or another library"));
}

// What a crash looks like is the worker's business.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = Of(kSignals[i]);
  }
  void GiveBack(const Libraries& libraries) const {
    for (size_t i = 0; i < kSignals.size(); ++i) {
      // UCX warns of a signal that it does not have, as at the second opening.
      if (Of(kSignals[i]) != before_[i]) {
        libraries.ucs_debug_disable_signal(kSignals[i]);
      }
    }
  }

 private:
  using Handler = void (*)(int, siginfo_t*, void*);
  static constexpr std::array<int, 5> kSignals = {SIGILL, SIGABRT, SIGBUS,
                                                  SIGFPE, SIGSEGV};

  static Handler Of(int signal) {
    struct sigaction action {};
    (void)sigaction(signal, nullptr, &action);
    return action.sa_sigaction;
  }

  std::array<Handler, 5> before_{};
};

absl::StatusCode CodeOf(ucs_status_t status) {
  if (UCS_IS_LINK_ERROR(status) || UCS_IS_ENDPOINT_ERROR(status)) {
    return absl::StatusCode::kUnavailable;
  }
  switch (status) {
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_CANCELED:
      return absl::StatusCode::kUnavailable;
    case UCS_ERR_NO_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Libraries>> Libraries::Open(
    const std::string& library) {
  const SignalKeeper signals;
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("ucx: cannot open ", library, ": ", dlerror(),
                     "; install libucx0, or name it with --ucx-library"));
  }
  auto libraries = std::make_shared<Libraries>();
#define SC_FIND(name) \
  SC_RETURN_IF_ERROR(Find(handle, library, #name, &libraries->name));
  SC_UCX_FUNCTIONS(SC_FIND)
#undef SC_FIND
  signals.GiveBack(*libraries);
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  libraries->ucp_get_version(&major, &minor, &release);
  libraries->major = static_cast<int>(major);
  libraries->minor = static_cast<int>(minor);
  if (major != UCP_API_MAJOR || minor < UCP_API_MINOR) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ucx: ", library, " is of version ", major, ".", minor,
        ", this build was made for ", UCP_API_MAJOR, ".", UCP_API_MINOR));
  }
  return std::shared_ptr<const Libraries>(std::move(libraries));
}

absl::Status Libraries::Check(ucs_status_t status,
                              absl::string_view call) const {
  if (status == UCS_OK) return absl::OkStatus();
  return absl::Status(
      CodeOf(status),
      absl::StrCat(call, " failed: ", ucs_status_string(status),
                   "; UCX_LOG_LEVEL=info in the worker's environment says "
                   "more"));
}

}  // namespace stagecoach::transport::ucx
