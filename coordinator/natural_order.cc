#include "coordinator/natural_order.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace stagecoach::coordinator {
namespace {

// Cuts the next piece off: a run of digits, or one other character.
absl::string_view NextPiece(absl::string_view* text) {
  size_t size = 0;
  while (size < text->size() && absl::ascii_isdigit((*text)[size])) ++size;
  const absl::string_view piece = text->substr(0, std::max<size_t>(size, 1));
  text->remove_prefix(piece.size());
  return piece;
}

// Negative, 0 or positive.
int ComparePieces(absl::string_view a, absl::string_view b) {
  if (absl::ascii_isdigit(a[0]) && absl::ascii_isdigit(b[0])) {
    a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
    b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  }
  return a.compare(b);
}

}  // namespace

bool NaturalLess(absl::string_view a, absl::string_view b) {
  absl::string_view rest_a = a;
  absl::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    const int order = ComparePieces(NextPiece(&rest_a), NextPiece(&rest_b));
    if (order != 0) return order < 0;
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  // "w1" and "w01".
  return a < b;
}

}  // namespace stagecoach::coordinator
