#include "stage_worker/memory_holders.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"
#include "memory/category.h"

namespace stagecoach::worker {
namespace {

constexpr size_t kMostNamed = 3;

using Named = std::pair<std::string, int64_t>;

// "a 2 MiB, b 1 MiB": the largest first, none of 0.
std::string Largest(std::vector<Named> entries, size_t most) {
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Named& a, const Named& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [name, bytes] : entries) {
    if (bytes == 0 || parts.size() == most) break;
    parts.push_back(absl::StrCat(name, " ", FormatByteSize(bytes)));
  }
  return absl::StrJoin(parts, ", ");
}

// Of 0 bytes: 0.
int64_t PercentOf(int64_t part, int64_t whole) {
  return whole <= 0 ? 0 : (100 * part + whole / 2) / whole;
}

}  // namespace

std::string DescribeHolders(const PlacementMemory& memory,
                            const std::vector<HeldBytes>& held) {
  std::vector<Named> categories;
  categories.reserve(memory::kCategories);
  for (int i = 0; i < memory::kCategories; ++i) {
    categories.emplace_back(
        memory::CategoryName(static_cast<memory::Category>(i)),
        memory.allocator.categories[static_cast<size_t>(i)].current);
  }
  std::map<std::string, int64_t> by_op;
  for (const HeldBytes& entry : held) by_op[entry.op] += entry.bytes;
  std::string text = absl::StrCat(
      "allocated ", FormatByteSize(memory.allocator.allocated_bytes.current),
      " (", Largest(std::move(categories), memory::kCategories), ")");
  if (!by_op.empty()) {
    absl::StrAppend(
        &text, "; most is held for backward by ",
        Largest(std::vector<Named>(by_op.begin(), by_op.end()), kMostNamed));
  }
  if (memory.ledger.pending_transfers > 0) {
    absl::StrAppend(&text, "; ", memory.ledger.pending_transfers,
                    " transfers of ",
                    FormatByteSize(memory.ledger.pending_bytes), " (",
                    PercentOf(memory.ledger.pending_bytes,
                              memory.allocator.allocated_bytes.current),
                    " %) are not acknowledged yet");
  }
  return text;
}

}  // namespace stagecoach::worker
