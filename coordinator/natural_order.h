#ifndef STAGECOACH_COORDINATOR_NATURAL_ORDER_H_
#define STAGECOACH_COORDINATOR_NATURAL_ORDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stagecoach::coordinator {

// Orders names as people count: "w2" before "w10". A strict weak order in which
// only equal names are equivalent.
bool NaturalLess(absl::string_view a, absl::string_view b);

struct NaturalOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    return NaturalLess(a, b);
  }
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_NATURAL_ORDER_H_
