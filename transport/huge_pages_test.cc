#include "transport/huge_pages.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPage = size_t{2} << 20;

HugePageOffer Offer(size_t free_pages, const std::string& transparent) {
  HugePageOffer offer;
  offer.page_bytes = kPage;
  offer.free_pages = free_pages;
  offer.transparent = transparent;
  return offer;
}

TEST(HugePagesTest, ThePoolIsTakenInWholePages) {
  const PagePlan plan = PlanPages(8 * kPage - 5, Offer(8, "never"));
  EXPECT_EQ(plan.choice, PageChoice::kReserved);
  EXPECT_EQ(plan.bytes, 8 * kPage);
  EXPECT_EQ(plan.why, "huge pages: 8 of 8 free ones");
}

TEST(HugePagesTest, WithoutEnoughOfThemTheKernelIsAskedWhereItListens) {
  EXPECT_EQ(PlanPages(8 * kPage, Offer(7, "advise")).choice,
            PageChoice::kAdvised);
  for (const char* word : {"never", "deny", "always", "within_size", "force"}) {
    const PagePlan plan = PlanPages(8 * kPage, Offer(7, word));
    EXPECT_EQ(plan.choice, PageChoice::kOrdinary) << word;
    EXPECT_EQ(plan.bytes, 8 * kPage);
    EXPECT_EQ(plan.why,
              absl::StrCat("ordinary pages: of 8 huge ones 7 are free "
                           "(vm.nr_hugepages), and transparent ones are ",
                           word, " (shmem_enabled)"));
  }
}

TEST(HugePagesTest, ASmallPoolOfSlotsIsNotWorthAHugePage) {
  const PagePlan plan = PlanPages(kPage - 1, Offer(100, "advise"));
  EXPECT_EQ(plan.choice, PageChoice::kOrdinary);
  EXPECT_THAT(plan.why, HasSubstr("less than a huge one of 2097152 bytes"));
}

TEST(HugePagesTest, NoMoreThanAQuarterIsWasted) {
  // 3.2 of 4 pages.
  EXPECT_EQ(PlanPages((16 * kPage + 4) / 5, Offer(100, "never")).choice,
            PageChoice::kReserved);
  const PagePlan plan = PlanPages(3 * kPage + 1, Offer(100, "never"));
  EXPECT_EQ(plan.choice, PageChoice::kOrdinary);
  EXPECT_EQ(plan.bytes, 3 * kPage + 1);
  EXPECT_THAT(plan.why, HasSubstr("would waste 2097151 bytes"));
  EXPECT_EQ(PlanPages(3 * kPage + 1, Offer(100, "advise")).choice,
            PageChoice::kAdvised);
}

TEST(HugePagesTest, AKernelWithoutThemIsNamed) {
  EXPECT_EQ(PlanPages(8 * kPage, HugePageOffer()).why,
            "ordinary pages: the kernel has no huge ones");
}

class HugePageOfferTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  const std::string folder_ = absl::StrCat(
      std::getenv("TEST_TMPDIR"), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(HugePageOfferTest, IsReadFromTheKernelsFiles) {
  Write("transparent_hugepage/hpage_pmd_size", "2097152");
  Write("transparent_hugepage/shmem_enabled",
        "always within_size [advise] never deny force");
  Write("hugepages/hugepages-2048kB/free_hugepages", "12");
  Write("hugepages/hugepages-2048kB/resv_hugepages", "5");
  const HugePageOffer offer = ReadHugePageOffer(folder_);
  EXPECT_EQ(offer.page_bytes, kPage);
  EXPECT_EQ(offer.free_pages, 7u);
  EXPECT_EQ(offer.transparent, "advise");
}

TEST_F(HugePageOfferTest, PromisedPagesAreNotFree) {
  Write("transparent_hugepage/hpage_pmd_size", "2097152");
  Write("hugepages/hugepages-2048kB/free_hugepages", "3");
  Write("hugepages/hugepages-2048kB/resv_hugepages", "4");
  EXPECT_EQ(ReadHugePageOffer(folder_).free_pages, 0u);
}

TEST_F(HugePageOfferTest, WhatCannotBeReadIsNotOffered) {
  EXPECT_EQ(ReadHugePageOffer(folder_).page_bytes, 0u);
  Write("transparent_hugepage/hpage_pmd_size", "lots");
  EXPECT_EQ(ReadHugePageOffer(folder_).page_bytes, 0u);
  Write("transparent_hugepage/hpage_pmd_size", "2097152");
  Write("transparent_hugepage/shmem_enabled", "");
  const HugePageOffer offer = ReadHugePageOffer(folder_);
  EXPECT_EQ(offer.page_bytes, kPage);
  EXPECT_EQ(offer.free_pages, 0u);
  EXPECT_EQ(offer.transparent, "");
}

}  // namespace
}  // namespace stagecoach::transport
