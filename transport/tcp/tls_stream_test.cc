#include "transport/tcp/tls_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/certificates.h"
#include "gtest/gtest.h"
#include "transport/tcp/socket.h"

namespace stagecoach::transport::tcp {
namespace {

using stagecoach::testing::TestAuthority;

std::string RandomBytes(size_t count, std::mt19937* random) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

// In parts of any length, some of them empty.
std::vector<iovec> InParts(char* data, size_t bytes, std::mt19937* random) {
  std::vector<iovec> parts;
  while (bytes > 0 && parts.size() < 20) {
    const size_t length = std::min<size_t>(bytes, (*random)() % 30'000);
    parts.push_back(iovec{data, length});
    data += length;
    bytes -= length;
  }
  return parts;
}

class TlsStreamTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const TlsIdentity> Identity(const TlsFiles& files) {
    return TlsIdentity::Load(files).value();
  }
  // A stream on each side of a pair of sockets; null: a plain one.
  void Join(const std::shared_ptr<const TlsIdentity>& dialling,
            const std::shared_ptr<const TlsIdentity>& accepting) {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    dialling_ = Over(dialling, fds[0], true);
    accepting_ = Over(accepting, fds[1], false);
  }
  std::unique_ptr<ByteStream> Over(
      const std::shared_ptr<const TlsIdentity>& identity, int fd,
      bool dialled) const {
    const StreamFactory factory =
        identity == nullptr ? NewPlainStream
                            : NewTlsStreams(identity, records_per_key_);
    return factory(UniqueFd(fd), dialled).value();
  }
  // What `to` reads of `sent`, with reads and writes of any length.
  static std::string Carry(ByteStream* from, ByteStream* to, std::string sent,
                           std::mt19937* random) {
    std::string received(sent.size(), '\0');
    size_t written = 0;
    size_t read = 0;
    for (int idle = 0; read < sent.size() && idle < 100; ++idle) {
      const std::vector<iovec> out =
          InParts(sent.data() + written, sent.size() - written, random);
      const absl::StatusOr<size_t> put =
          from->Write(out.data(), static_cast<int>(out.size()));
      const std::vector<iovec> in =
          InParts(received.data() + read, sent.size() - read, random);
      const absl::StatusOr<size_t> got =
          to->Read(in.data(), static_cast<int>(in.size()));
      EXPECT_TRUE(put.ok() && got.ok()) << put.status() << got.status();
      if (!put.ok() || !got.ok()) break;
      written += *put;
      read += *got;
      if (*put + *got > 0) idle = 0;
    }
    EXPECT_TRUE(from->drained());
    return received;
  }
  // Until one side has an error; that of each.
  std::pair<absl::Status, absl::Status> Greet() {
    char hello[] = "hello";
    const iovec out{hello, 5};
    char buffer[64];
    const iovec in{buffer, sizeof(buffer)};
    absl::Status here;
    absl::Status there;
    for (int i = 0; i < 10; ++i) {
      if (here.ok()) here = dialling_->Write(&out, 1).status();
      if (there.ok()) there = accepting_->Write(&out, 1).status();
      if (there.ok()) there = accepting_->Read(&in, 1).status();
      if (here.ok()) here = dialling_->Read(&in, 1).status();
    }
    return {here, there};
  }
  static void ExpectRefused(const absl::Status& status,
                            const std::string& words) {
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }

  TestAuthority authority_{::testing::TempDir(), "ours"};
  const std::shared_ptr<const TlsIdentity> here_ =
      Identity(authority_.Issue("here"));
  const std::shared_ptr<const TlsIdentity> there_ =
      Identity(authority_.Issue("there"));
  std::unique_ptr<ByteStream> dialling_;
  std::unique_ptr<ByteStream> accepting_;
  int64_t records_per_key_ = kRecordsPerKey;
};

TEST_F(TlsStreamTest, CarriesBytesBothWays) {
  std::mt19937 random(1);
  Join(here_, there_);
  for (const size_t bytes : {1, 5, 16'384, 16'385, 1'000'000, 3'000'000}) {
    const std::string sent = RandomBytes(bytes, &random);
    EXPECT_EQ(Carry(dialling_.get(), accepting_.get(), sent, &random), sent);
    EXPECT_EQ(Carry(accepting_.get(), dialling_.get(), sent, &random), sent);
  }
}

TEST_F(TlsStreamTest, KeysChangeOnTheWay) {
  std::mt19937 random(6);
  records_per_key_ = 3;
  Join(here_, there_);
  const std::string sent = RandomBytes(1'000'000, &random);
  EXPECT_EQ(Carry(dialling_.get(), accepting_.get(), sent, &random), sent);
  EXPECT_EQ(Carry(accepting_.get(), dialling_.get(), sent, &random), sent);
}

// The bytes that the socket has not taken are the stream's, and come first.
TEST_F(TlsStreamTest, AWriterMayOfferOtherBytesNext) {
  std::mt19937 random(2);
  Join(here_, there_);
  ASSERT_EQ(Carry(dialling_.get(), accepting_.get(), "x", &random), "x");
  std::string expected;
  std::string received;
  for (int round = 0; round < 50; ++round) {
    bool full = false;
    while (!full) {
      std::string piece = RandomBytes(1 + random() % 40'000, &random);
      const iovec part{piece.data(), piece.size()};
      const size_t taken = dialling_->Write(&part, 1).value();
      expected.append(piece, 0, taken);
      full = taken < piece.size();
    }
    EXPECT_FALSE(dialling_->drained());
    EXPECT_EQ(dialling_->Write(nullptr, 0).value(), 0u);
    while (true) {
      std::string buffer(100'000, '\0');
      const iovec part{buffer.data(), buffer.size()};
      const size_t got = accepting_->Read(&part, 1).value();
      received.append(buffer, 0, got);
      EXPECT_EQ(dialling_->Write(nullptr, 0).value(), 0u);
      if (got == 0 && dialling_->drained()) break;
    }
  }
  EXPECT_EQ(received.size(), expected.size());
  EXPECT_TRUE(received == expected);
}

TEST_F(TlsStreamTest, TheEndComesAfterTheLastByte) {
  std::mt19937 random(3);
  Join(here_, there_);
  ASSERT_EQ(Carry(dialling_.get(), accepting_.get(), "x", &random), "x");
  char last[] = "last";
  const iovec out{last, 4};
  ASSERT_EQ(dialling_->Write(&out, 1).value(), 4u);
  dialling_->EndWriting();
  char buffer[64];
  const iovec in{buffer, sizeof(buffer)};
  EXPECT_EQ(accepting_->Read(&in, 1).value(), 4u);
  EXPECT_TRUE(absl::IsUnavailable(accepting_->Read(&in, 1).status()));
}

TEST_F(TlsStreamTest, APeerThatGoesIsUnavailable) {
  std::mt19937 random(4);
  Join(here_, there_);
  ASSERT_EQ(Carry(dialling_.get(), accepting_.get(), "x", &random), "x");
  accepting_.reset();
  char buffer[64] = {};
  const iovec part{buffer, sizeof(buffer)};
  EXPECT_TRUE(absl::IsUnavailable(dialling_->Read(&part, 1).status()));
  EXPECT_TRUE(absl::IsUnavailable(dialling_->Write(&part, 1).status()));
}

TEST_F(TlsStreamTest, AnotherAuthoritysCertificateIsRefused) {
  TestAuthority stranger(::testing::TempDir(), "theirs");
  const auto foreign = Identity(stranger.Issue("node"));
  Join(here_, foreign);
  ExpectRefused(Greet().first, "certificate verify failed");
  Join(foreign, there_);
  ExpectRefused(Greet().first, "certificate verify failed");
}

// Also one who believes everybody.
TEST_F(TlsStreamTest, TheAcceptingSideRefusesToo) {
  TestAuthority stranger(::testing::TempDir(), "theirs");
  const auto foreign = Identity(stranger.Issue("node"));
  SSL_CTX_set_verify(foreign->context(), SSL_VERIFY_NONE, nullptr);
  Join(foreign, there_);
  const auto [dialling, accepting] = Greet();
  ExpectRefused(accepting, "certificate verify failed");
  EXPECT_FALSE(dialling.ok());
}

TEST_F(TlsStreamTest, TheNameOfWhoIsDialledCountsWhereOneIsGiven) {
  TestAuthority::Request request;
  request.names = "DNS:stagecoach";
  TlsFiles files = authority_.Issue("named", request);
  files.name = "stagecoach";
  std::mt19937 random(5);
  Join(Identity(files), Identity(files));
  EXPECT_EQ(Carry(dialling_.get(), accepting_.get(), "x", &random), "x");
  Join(Identity(files), there_);
  ExpectRefused(Greet().first, "hostname mismatch");
}

TEST_F(TlsStreamTest, APlainPeerIsRefusedAndRefuses) {
  Join(nullptr, there_);
  ExpectRefused(Greet().second, "TLS");
  Join(here_, nullptr);
  char text[] = "this is no TLS at all";
  const iovec out{text, sizeof(text)};
  ASSERT_TRUE(accepting_->Write(&out, 1).ok());
  char buffer[64];
  const iovec in{buffer, sizeof(buffer)};
  ExpectRefused(dialling_->Read(&in, 1).status(), "TLS");
}

}  // namespace
}  // namespace stagecoach::transport::tcp
