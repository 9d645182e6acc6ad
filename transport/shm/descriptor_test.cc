#include "transport/shm/descriptor.h"

#include <random>
#include <string>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport::shm {
namespace {

using ::testing::HasSubstr;

TEST(ShmDescriptorTest, ParsesWhatItFormatted) {
  const ShmDescriptor descriptor = NewDescriptor().value();
  const ShmDescriptor parsed =
      ParseDescriptor(FormatDescriptor(descriptor)).value();
  EXPECT_EQ(FormatDescriptor(parsed), FormatDescriptor(descriptor));
  EXPECT_TRUE(SameToken(parsed.token, descriptor.token));
  EXPECT_TRUE(CheckReachable(descriptor.location, parsed.location).ok());
}

TEST(ShmDescriptorTest, NamesAndTokensAreDrawnAnew) {
  const ShmDescriptor a = NewDescriptor().value();
  const ShmDescriptor b = NewDescriptor().value();
  EXPECT_NE(a.socket_name, b.socket_name);
  EXPECT_FALSE(SameToken(a.token, b.token));
}

TEST(ShmDescriptorTest, SaysWhatKeepsTwoProcessesApart) {
  const Location here = Location::Here().value();
  Location peer = here;
  peer.boot_id = "another";
  EXPECT_THAT(std::string(CheckReachable(here, peer).message()),
              HasSubstr("another host"));
  peer = here;
  ++peer.network_namespace;
  EXPECT_THAT(std::string(CheckReachable(here, peer).message()),
              HasSubstr("network namespace"));
  peer = here;
  ++peer.user_id;
  EXPECT_THAT(std::string(CheckReachable(here, peer).message()),
              HasSubstr("runs as user"));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckReachable(here, peer)));
}

TEST(ShmDescriptorTest, AnotherVersionIsNamed) {
  const absl::Status status = ParseDescriptor("shm/2;boot=x").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("shm/2"));
}

TEST(ShmDescriptorTest, RefusesWhatIsMalformed) {
  const std::string good = FormatDescriptor(NewDescriptor().value());
  const std::vector<std::string> bad = {
      "",
      "tcp/1;host=x",
      "shm/1",
      good + ";",
      good + ";boot=twice",
      absl::StrReplaceAll(good, {{"token=", "token=0"}}),
      absl::StrReplaceAll(good, {{"token=", "token=zz"}}),
      absl::StrReplaceAll(good, {{";uid=", ";uid=-"}}),
      absl::StrReplaceAll(good, {{";net=", ";net=x"}}),
      absl::StrReplaceAll(good, {{";socket=", ";socket=a/b"}}),
      absl::StrReplaceAll(good,
                          {{";socket=", ";socket=" + std::string(200, 'a')}}),
      absl::StrReplaceAll(good, {{";boot=", ";toob="}}),
  };
  for (const std::string& text : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDescriptor(text).status()))
        << text << ": " << ParseDescriptor(text).status();
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(ParseDescriptor(absl::string_view()).status()));
}

TEST(ShmDescriptorTest, AnyTextIsParsedOrRefused) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::string good = FormatDescriptor(NewDescriptor().value());
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int i = static_cast<int>(random() % 4); i >= 0; --i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    text.resize(text.size() - random() % 3);
    const auto parsed = ParseDescriptor(text);
    if (parsed.ok()) {
      EXPECT_TRUE(ParseDescriptor(FormatDescriptor(*parsed)).ok()) << text;
    }
  }
}

}  // namespace
}  // namespace stagecoach::transport::shm
