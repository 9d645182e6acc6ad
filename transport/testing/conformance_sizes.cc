// Transfers of every size, and many at once.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;
using testing::ValuesOf;

constexpr size_t kGibibyte = size_t{1} << 30;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::vector<char> Pattern(size_t bytes) {
  std::vector<char> pattern(bytes);
  uint64_t word = 0x9E3779B97F4A7C15;
  size_t at = 0;
  for (; at + sizeof(word) <= bytes; at += sizeof(word)) {
    std::memcpy(pattern.data() + at, &word, sizeof(word));
    word += 0x9E3779B97F4A7C15;
  }
  for (; at < bytes; ++at) pattern[at] = static_cast<char>(at);
  return pattern;
}

OutgoingTensor BytesOf(const std::vector<char>& bytes) {
  OutgoingTensor tensor;
  tensor.descriptor.dtype = DType::kUInt8;
  tensor.descriptor.shape = {static_cast<int64_t>(bytes.size())};
  tensor.data = bytes.data();
  return tensor;
}

bool Holds(const ReceivedTransfer& transfer, const std::vector<char>& bytes) {
  return transfer.tensors.size() == 1 &&
         transfer.tensors[0].descriptor.bytes() == bytes.size() &&
         (bytes.empty() || std::memcmp(transfer.tensors[0].data, bytes.data(),
                                       bytes.size()) == 0);
}

uint64_t AvailableKibibytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kibibytes = 0;
  std::string rest;
  while (meminfo >> name >> kibibytes && std::getline(meminfo, rest)) {
    if (name == "MemAvailable:") return kibibytes;
  }
  return 0;
}

}  // namespace

TEST_P(TransportConformance, CarriesEverySizeUpToSixteenMebibytes) {
  const std::vector<size_t> sizes = {0,
                                     1,
                                     7,
                                     63,
                                     64,
                                     65,
                                     127,
                                     4095,
                                     4096,
                                     4097,
                                     65535,
                                     65536,
                                     65537,
                                     262143,
                                     1 << 20,
                                     (1 << 20) + 1,
                                     (16 << 20) - 1,
                                     16 << 20};
  const auto receive = OpenReceive(PoolNamed("e", 2, 16 << 20));
  const auto send = OpenSend();
  for (const size_t size : sizes) {
    const std::vector<char> bytes = Pattern(size);
    Outcome sent;
    Outcome received;
    receive->PostReceive(IntoReceive(&received));
    send->PostSend(HeaderOf(0), {BytesOf(bytes)}, Into(&sent));
    ASSERT_TRUE(Until([&] { return received.calls == 1 && sent.calls == 1; }))
        << size;
    ASSERT_TRUE(received.status.ok()) << size << ": " << received.status;
    EXPECT_TRUE(Holds(received.transfer, bytes)) << size;
  }
}

TEST_P(TransportConformance, CarriesAGibibyte) {
  // Of the sender, and of the receiver; a sanitizer takes several times that.
  if (kSanitized || AvailableKibibytes() < 4 * kGibibyte / 1024) {
    GTEST_SKIP() << "needs 4 GiB of memory and no sanitizer";
  }
  const std::vector<char> bytes = Pattern(kGibibyte);
  Outcome sent;
  Outcome received;
  const auto receive = OpenReceive(PoolNamed("e", 1, kGibibyte));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(0), {BytesOf(bytes)}, Into(&sent));
  ASSERT_TRUE(Until([&] { return received.calls == 1 && sent.calls == 1; }));
  ASSERT_TRUE(received.status.ok()) << received.status;
  EXPECT_TRUE(Holds(received.transfer, bytes));
}

// All granted, sent and held at one time, and none acknowledged.
TEST_P(TransportConformance, AThousandTransfersAreInFlightAtOnce) {
  constexpr int kTransfers = 1000;
  std::vector<std::vector<int64_t>> values;
  for (int i = 0; i < kTransfers; ++i) values.push_back({i, -i});
  std::vector<Outcome> sent(kTransfers);
  std::vector<Outcome> received(kTransfers);
  const auto receive = OpenReceive(PoolNamed("e", kTransfers, 64));
  const auto send = OpenSend();
  for (int i = 0; i < kTransfers; ++i) {
    receive->PostReceive(IntoReceive(&received[i]));
    send->PostSend(HeaderOf(i), {TensorOver(values[i])}, Into(&sent[i]));
  }
  ASSERT_TRUE(Until(
      [&] { return received.back().calls == 1 && sent.back().calls == 1; }));
  for (int i = 0; i < kTransfers; ++i) {
    EXPECT_EQ(sent[i].calls, 1) << i;
    ASSERT_EQ(received[i].calls, 1) << i;
    ASSERT_TRUE(received[i].status.ok()) << received[i].status;
    EXPECT_EQ(received[i].transfer.header, HeaderOf(i));
    EXPECT_EQ(ValuesOf(received[i].transfer), values[i]);
  }
  for (int i = 0; i < kTransfers; ++i) receive->Acknowledge(HeaderOf(i));
  ASSERT_TRUE(Until([&] { return acknowledged_.size() == kTransfers; }));
  for (int i = 0; i < kTransfers; ++i) {
    EXPECT_EQ(acknowledged_[i], HeaderOf(i));
  }
}

}  // namespace stagecoach::transport
