#include "rpc/address.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace stagecoach::rpc {
namespace {

TEST(AddressTest, WritesWhatItRead) {
  for (const char* text : {"127.0.0.1:0", "[::1]:7070", "localhost:65535",
                           "node-3.example:7070", "0.0.0.0:7070", "[fe80::1]:1",
                           "unix:/run/stagecoach.sock", "unix:relative.sock"}) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(AddressTest, ThreeSlashesNameTheSameSocket) {
  EXPECT_EQ(ParseAddress("unix:///run/a.sock")->path, "/run/a.sock");
}

TEST(AddressTest, KnowsWhatOnlyThisMachineReaches) {
  for (const char* text :
       {"127.0.0.1:1", "127.9.8.7:1", "[::1]:1", "localhost:1", "unix:/a"}) {
    EXPECT_TRUE(ParseAddress(text)->IsLoopback()) << text;
  }
  for (const char* text :
       {"0.0.0.0:1", "128.0.0.1:1", "10.0.0.1:1", "[::]:1", "[::2]:1",
        "localhost.example:1", "127.0.0.1.example:1", "127.1:1"}) {
    EXPECT_FALSE(ParseAddress(text)->IsLoopback()) << text;
  }
}

TEST(AddressTest, RefusesWithWhatWouldWork) {
  for (const std::string& text :
       {std::string(""), std::string("7070"), std::string(":7070"),
        std::string("localhost:"), std::string("localhost:http"),
        std::string("localhost:65536"), std::string("localhost:-1"),
        std::string("::1:7070"), std::string("[::1:7070"),
        std::string("[localhost]:7070"), std::string("[zz::]:7070"),
        std::string("a b:7070"), std::string("http://host:7070"),
        std::string("unix:"), absl::StrCat("unix:/", std::string(107, 'x'))}) {
    const absl::Status status = ParseAddress(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "127.0.0.1:7070"))
        << status;
  }
  EXPECT_TRUE(ParseAddress(absl::StrCat("unix:/", std::string(106, 'x'))).ok());
}

}  // namespace
}  // namespace stagecoach::rpc
