#ifndef STAGECOACH_BASE_SUGGEST_H_
#define STAGECOACH_BASE_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stagecoach {

// `; did you mean "1f1b"?` if one of the candidates is close to what was
// written (edit distance), else "".
std::string DidYouMean(absl::string_view written,
                       const std::vector<std::string>& candidates);

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_SUGGEST_H_
