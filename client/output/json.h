#ifndef STAGECOACH_CLIENT_OUTPUT_JSON_H_
#define STAGECOACH_CLIENT_OUTPUT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace stagecoach::client {

// Keys stay in the order in which a document adds them.
using Json = nlohmann::ordered_json;

// A document as `-o json` prints it, with its newline. Doubles are written so
// that they read back to the same bits; infinities and NaN become null, which
// JSON has no numbers for. Never throws: bytes that are not UTF-8 are replaced.
std::string Dump(const Json& document);
// The same on one line: one of a stream of documents.
std::string DumpLine(const Json& document);

// Adds `error {exit_code message}`, which every document of a failed verb has.
void AddError(int exit_code, absl::string_view message, Json* document);

// A list of integers: `repeated int32` of a message, or a vector of them.
template <typename Numbers>
Json NumbersJson(const Numbers& numbers) {
  Json list = Json::array();
  for (const auto number : numbers) list.push_back(number);
  return list;
}

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_JSON_H_
