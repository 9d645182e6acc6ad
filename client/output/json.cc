#include "client/output/json.h"

namespace stagecoach::client {

namespace {

std::string DumpIndented(const Json& document, int indent) {
  return document.dump(indent, /*indent_char=*/' ', /*ensure_ascii=*/false,
                       Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

std::string Dump(const Json& document) { return DumpIndented(document, 2); }

std::string DumpLine(const Json& document) {
  return DumpIndented(document, -1);
}

void AddError(int exit_code, absl::string_view message, Json* document) {
  Json error = Json::object();
  error["exit_code"] = exit_code;
  error["message"] = std::string(message);
  (*document)["error"] = std::move(error);
}

}  // namespace stagecoach::client
