#include "base/status.h"

#include <memory>

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int number) {
  if (number % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(number / 2);
}

absl::StatusOr<int> Quarter(int number) {
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(number));
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

absl::Status CheckQuarter(int number) {
  SC_RETURN_IF_ERROR(Quarter(number).status());
  return absl::OkStatus();
}

TEST(StatusMacrosTest, MoveValuesOutAndPassErrorsOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
  EXPECT_TRUE(CheckQuarter(4).ok());
  EXPECT_EQ(CheckQuarter(3), absl::InvalidArgumentError("odd"));
}

TEST(AnnotateTest, PutsContextBeforeAnErrorAndLeavesOkAlone) {
  EXPECT_EQ(Annotate(absl::NotFoundError("no file"), "stage 2"),
            absl::NotFoundError("stage 2: no file"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "stage 2").ok());
}

}  // namespace
}  // namespace stagecoach
