#include "transport/shm/greeting.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/shm/socket.h"

namespace stagecoach::transport::shm {
namespace {

TEST(ShmGreetingTest, HelloComesThrough) {
  Hello hello;
  hello.token[3] = 7;
  hello.edge = "activation 0->1";
  hello.epoch = int64_t{1} << 40;
  const std::string packet = EncodeHello(hello).value();
  EXPECT_LE(packet.size(), Socket::kMaxPacketBytes);
  const Hello decoded = DecodeHello(packet).value();
  EXPECT_EQ(decoded.edge, hello.edge);
  EXPECT_EQ(decoded.epoch, hello.epoch);
  EXPECT_TRUE(SameToken(decoded.token, hello.token));
}

TEST(ShmGreetingTest, RefusesEdgeNamesThatDoNotFit) {
  for (const size_t bytes : {size_t{0}, kMaxEdgeNameBytes + 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        EncodeHello({Token{}, std::string(bytes, 'x')}).status()));
  }
  EXPECT_TRUE(EncodeHello({Token{}, std::string(kMaxEdgeNameBytes, 'x')}).ok());
}

TEST(ShmGreetingTest, AnswersComeThrough) {
  EXPECT_TRUE(DecodeAnswer(EncodeAnswer(absl::OkStatus())).ok());
  const absl::Status refusal = absl::NotFoundError("no edge");
  EXPECT_EQ(DecodeAnswer(EncodeAnswer(refusal)), refusal);
  const absl::Status wordy = absl::NotFoundError(std::string(5000, 'x'));
  const std::string packet = EncodeAnswer(wordy);
  EXPECT_LE(packet.size(), Socket::kMaxPacketBytes);
  EXPECT_TRUE(absl::IsNotFound(DecodeAnswer(packet)));
}

TEST(ShmGreetingTest, RefusesWhatIsNoGreeting) {
  const std::string good = EncodeHello({Token{}, "e"}).value();
  std::string long_name = good;
  long_name[12] = '\xFF';
  long_name[13] = '\xFF';
  std::string no_name = good;
  no_name[12] = 0;
  std::string magic = good;
  magic[0] = 'x';
  for (const std::string& packet :
       {std::string(), std::string("GET / HTTP/1.1"), good + "x",
        good.substr(1), long_name, no_name, magic}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeHello(packet).status()));
  }
  std::string version = good;
  version[8] = 9;
  EXPECT_TRUE(absl::IsFailedPrecondition(DecodeHello(version).status()));
}

TEST(ShmGreetingTest, RefusesWhatIsNoAnswer) {
  const std::string good = EncodeAnswer(absl::NotFoundError("x"));
  std::string code = good;
  code[8] = 100;
  std::string length = good;
  length[15] = 1;
  for (const std::string& packet :
       {std::string(), std::string(kBye), good + "x", code, length}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeAnswer(packet)));
  }
}

}  // namespace
}  // namespace stagecoach::transport::shm
