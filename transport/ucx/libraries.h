#ifndef STAGECOACH_TRANSPORT_UCX_LIBRARIES_H_
#define STAGECOACH_TRANSPORT_UCX_LIBRARIES_H_

#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::transport::ucx {

// Everything that is called in libucp, and in libucs, which it brings along.
#define SC_UCX_FUNCTIONS(X)     \
  X(ucp_get_version)            \
  X(ucp_config_read)            \
  X(ucp_config_modify)          \
  X(ucp_config_release)         \
  X(ucp_init_version)           \
  X(ucp_cleanup)                \
  X(ucp_worker_create)          \
  X(ucp_worker_destroy)         \
  X(ucp_worker_get_address)     \
  X(ucp_worker_release_address) \
  X(ucp_worker_get_efd)         \
  X(ucp_worker_arm)             \
  X(ucp_worker_progress)        \
  X(ucp_ep_create)              \
  X(ucp_ep_close_nbx)           \
  X(ucp_tag_send_nbx)           \
  X(ucp_tag_recv_nbx)           \
  X(ucp_request_cancel)         \
  X(ucp_request_free)           \
  X(ucs_status_string)          \
  X(ucs_debug_disable_signal)

// UCX's functions, each pointer of the type that the real header gives it. The
// library is opened and not linked: a worker that does not use it needs not
// have it, and loading it takes over the signals of crashes. Immutable;
// thread-safe as they are. Never unloaded: UCX leaves a thread behind.
struct Libraries {
#define SC_POINTER(name) decltype(&::name) name = nullptr;
  SC_UCX_FUNCTIONS(SC_POINTER)
#undef SC_POINTER
  int major = 0;
  int minor = 0;

  // kFailedPrecondition, with the reason and what to do, for a library that is
  // not there, lacks a function, or is older than the header.
  static absl::StatusOr<std::shared_ptr<const Libraries>> Open(
      const std::string& library);

  // OK, or an error that says which call failed and why. kUnavailable: the
  // other side or the network; kResourceExhausted: no memory; else kInternal.
  absl::Status Check(ucs_status_t status, absl::string_view call) const;
};

}  // namespace stagecoach::transport::ucx

#endif  // STAGECOACH_TRANSPORT_UCX_LIBRARIES_H_
