#ifndef STAGECOACH_SCHEDULE_FORMATS_JSON_PLACES_H_
#define STAGECOACH_SCHEDULE_FORMATS_JSON_PLACES_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"

// Where things stand in JSON text that a parser has accepted already: the
// parser keeps values, not places, and errors need both.
namespace stagecoach::schedule::formats {

struct JsonMember {
  absl::string_view name;  // as written, escapes and all
  size_t name_at = 0;
  size_t value_at = 0;
};

// Members of the object that begins at or, after white space, behind `at`.
std::vector<JsonMember> JsonMembers(absl::string_view text, size_t at);
// Likewise the places of an array's elements.
std::vector<size_t> JsonElements(absl::string_view text, size_t at);

}  // namespace stagecoach::schedule::formats

#endif  // STAGECOACH_SCHEDULE_FORMATS_JSON_PLACES_H_
