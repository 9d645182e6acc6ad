#include "client/output/json.h"

namespace stagecoach::client {

std::string Dump(const Json& document) {
  return document.dump(/*indent=*/2, /*indent_char=*/' ',
                       /*ensure_ascii=*/false, Json::error_handler_t::replace) +
         "\n";
}

void AddError(int exit_code, absl::string_view message, Json* document) {
  Json error = Json::object();
  error["exit_code"] = exit_code;
  error["message"] = std::string(message);
  (*document)["error"] = std::move(error);
}

}  // namespace stagecoach::client
