#ifndef STAGECOACH_TRANSPORT_UCX_CONTEXT_H_
#define STAGECOACH_TRANSPORT_UCX_CONTEXT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/ucx/libraries.h"
#include "transport/ucx/settings.h"

namespace stagecoach::transport::ucx {

// UCX as one endpoint may use it. Thread-compatible; its workers belong to one
// thread.
class Context {
 public:
  // kFailedPrecondition, with the reason.
  static absl::StatusOr<std::shared_ptr<const Context>> Create(
      const UcxSettings& settings);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Libraries& libraries() const { return *libraries_; }
  ucp_context_h get() const { return context_; }

 private:
  Context(std::shared_ptr<const Libraries> libraries, ucp_context_h context)
      : libraries_(std::move(libraries)), context_(context) {}

  const std::shared_ptr<const Libraries> libraries_;
  const ucp_context_h context_;
};

}  // namespace stagecoach::transport::ucx

#endif  // STAGECOACH_TRANSPORT_UCX_CONTEXT_H_
