#ifndef STAGECOACH_TRANSPORT_HUGE_PAGES_H_
#define STAGECOACH_TRANSPORT_HUGE_PAGES_H_

#include <cstddef>
#include <string>

namespace stagecoach::transport {

// What this machine has of them for shared memory (Linux,
// Documentation/admin-guide/mm/hugetlbpage.rst and transhuge.rst).
struct HugePageOffer {
  size_t page_bytes = 0;  // 0: the kernel knows none
  // In the pool that an operator reserved (vm.nr_hugepages), and promised to
  // nobody.
  size_t free_pages = 0;
  // The choice of transparent_hugepage/shmem_enabled: "never", "advise", ...;
  // empty where that is not known.
  std::string transparent;
};
// `folder`: "/sys/kernel/mm", but in tests. Whatever cannot be read is not
// offered.
HugePageOffer ReadHugePageOffer(const std::string& folder);

enum class PageChoice {
  kOrdinary,  // or whatever the kernel takes unasked
  kAdvised,   // transparent ones: the kernel is asked for them
  kReserved,  // from the operator's pool
};

struct PagePlan {
  PageChoice choice = PageChoice::kOrdinary;
  size_t bytes = 0;  // what to ask for: whole pages of the pool
  std::string why;   // for people: "ordinary pages: ..."
};
// Which pages `bytes` of shared memory should have. The pool's, unless the last
// page would waste more than a quarter.
PagePlan PlanPages(size_t bytes, const HugePageOffer& offer);

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_HUGE_PAGES_H_
