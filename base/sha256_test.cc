#include "base/sha256.h"

#include <string>

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

// FIPS 180-4's examples.
TEST(Sha256Test, HashesTheKnownMessages) {
  EXPECT_EQ(Sha256().FinishHex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.Update("abc");
  EXPECT_EQ(abc.FinishHex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, DoesNotDependOnHowTheMessageIsCut) {
  Sha256 whole;
  whole.Update(std::string(1000, 'x'));
  Sha256 pieces;
  for (int i = 0; i < 100; ++i) pieces.Update("xxxxxxxxxx", 10);
  EXPECT_EQ(whole.FinishHex(), pieces.FinishHex());
}

}  // namespace
}  // namespace stagecoach
