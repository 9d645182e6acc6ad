#ifndef STAGECOACH_BASE_PROPERTY_CASES_H_
#define STAGECOACH_BASE_PROPERTY_CASES_H_

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "absl/strings/string_view.h"

namespace stagecoach {

// Whether property tests run their long form: `scripts/test.sh --long`.
inline bool IsLongForm() {
  const char* const value = std::getenv("STAGECOACH_LONG");
  return value != nullptr && absl::string_view(value) == "1";
}

// How many random cases a property test runs: ten times as many in the long
// form.
inline int PropertyCases(int cases = 200) {
  return IsLongForm() ? 10 * cases : cases;
}

// One line in the test's output, so that anyone can count.
inline void PrintCases(absl::string_view what, int64_t cases, uint32_t seed) {
  std::cout << "[   cases  ] " << what << ": " << cases << ", seed " << seed
            << std::endl;
}

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_PROPERTY_CASES_H_
