#include "transport/huge_pages.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace stagecoach::transport {
namespace {

constexpr size_t kWasteShare = 4;

// 0 where there is none.
size_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  size_t number = 0;
  return file >> number ? number : 0;
}

// Of "always within_size [advise] never": "advise".
std::string ReadChoice(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word.size() > 2 && word.front() == '[' && word.back() == ']') {
      return word.substr(1, word.size() - 2);
    }
  }
  return "";
}

PagePlan Ordinary(size_t bytes, const std::string& why) {
  return {PageChoice::kOrdinary, bytes, absl::StrCat("ordinary pages: ", why)};
}

}  // namespace

HugePageOffer ReadHugePageOffer(const std::string& folder) {
  HugePageOffer offer;
  const std::string transparent = folder + "/transparent_hugepage";
  offer.page_bytes = ReadNumber(transparent + "/hpage_pmd_size");
  if (offer.page_bytes == 0) return offer;
  offer.transparent = ReadChoice(transparent + "/shmem_enabled");
  const std::string pool = absl::StrCat(folder, "/hugepages/hugepages-",
                                        offer.page_bytes / 1024, "kB");
  const size_t free = ReadNumber(pool + "/free_hugepages");
  const size_t promised = ReadNumber(pool + "/resv_hugepages");
  offer.free_pages = free > promised ? free - promised : 0;
  return offer;
}

PagePlan PlanPages(size_t bytes, const HugePageOffer& offer) {
  const size_t page = offer.page_bytes;
  if (page == 0) return Ordinary(bytes, "the kernel has no huge ones");
  if (bytes < page) {
    return Ordinary(bytes, absl::StrCat("less than a huge one of ", page,
                                        " bytes is wanted"));
  }
  const size_t pages = (bytes + page - 1) / page;
  const size_t waste = pages * page - bytes;
  if (waste <= bytes / kWasteShare && pages <= offer.free_pages) {
    return {PageChoice::kReserved, pages * page,
            absl::StrCat("huge pages: ", pages, " of ", offer.free_pages,
                         " free ones")};
  }
  if (offer.transparent == "advise") {
    return {PageChoice::kAdvised, bytes,
            "huge pages as far as the kernel finds some (shmem_enabled is "
            "advise)"};
  }
  if (pages > offer.free_pages) {
    return Ordinary(
        bytes,
        absl::StrCat("of ", pages, " huge ones ", offer.free_pages,
                     " are free (vm.nr_hugepages), and transparent ones are ",
                     offer.transparent.empty() ? "unknown" : offer.transparent,
                     " (shmem_enabled)"));
  }
  return Ordinary(
      bytes, absl::StrCat("the last huge one would waste ", waste, " bytes"));
}

}  // namespace stagecoach::transport
