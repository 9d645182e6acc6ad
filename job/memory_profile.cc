#include "job/memory_profile.h"

#include <algorithm>

namespace stagecoach::job {

void CategoryBytes::Add(MemoryCategory category, int64_t bytes) {
  categories[static_cast<size_t>(category)] += bytes;
  total += bytes;
}

CategoryBytes& CategoryBytes::operator+=(const CategoryBytes& other) {
  total += other.total;
  for (size_t i = 0; i < categories.size(); ++i) {
    categories[i] += other.categories[i];
  }
  return *this;
}

CategoryBytes& CategoryBytes::operator-=(const CategoryBytes& other) {
  total -= other.total;
  for (size_t i = 0; i < categories.size(); ++i) {
    categories[i] -= other.categories[i];
  }
  return *this;
}

void CategoryBytes::RaiseTo(const CategoryBytes& other) {
  total = std::max(total, other.total);
  for (size_t i = 0; i < categories.size(); ++i) {
    categories[i] = std::max(categories[i], other.categories[i]);
  }
}

}  // namespace stagecoach::job
