#include "transport/ucx/context.h"

#include <map>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::ucx {
namespace {

absl::Status Configure(const Libraries& libraries, const UcxSettings& settings,
                       ucp_config_t* config) {
  std::map<std::string, std::string> all = settings.configuration;
  if (settings.loopback_only) all["NET_DEVICES"] = "lo";
  for (const auto& [name, value] : all) {
    SC_RETURN_IF_ERROR(libraries.Check(
        libraries.ucp_config_modify(config, name.c_str(), value.c_str()),
        absl::StrCat("setting UCX_", name, "=", value)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ucp_context_h> Init(const Libraries& libraries,
                                   const UcxSettings& settings) {
  ucp_config_t* config = nullptr;
  SC_RETURN_IF_ERROR(libraries.Check(
      libraries.ucp_config_read(nullptr, nullptr, &config), "ucp_config_read"));
  const auto release = absl::MakeCleanup(
      [&libraries, config] { libraries.ucp_config_release(config); });
  SC_RETURN_IF_ERROR(Configure(libraries, settings, config));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  SC_RETURN_IF_ERROR(
      libraries.Check(libraries.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR,
                                                 &params, config, &context),
                      "ucp_init"));
  return context;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Context>> Context::Create(
    const UcxSettings& settings) {
  SC_ASSIGN_OR_RETURN(std::shared_ptr<const Libraries> libraries,
                      Libraries::Open(settings.library));
  const absl::StatusOr<ucp_context_h> context = Init(*libraries, settings);
  if (!context.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("ucx: ", context.status().message()));
  }
  return std::shared_ptr<const Context>(
      new Context(std::move(libraries), *context));
}

Context::~Context() { libraries_->ucp_cleanup(context_); }

}  // namespace stagecoach::transport::ucx
