// Frames through a stream that takes and gives any number of bytes at a time.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "transport/tcp/frame_reader.h"
#include "transport/tcp/frame_writer.h"

namespace stagecoach::transport::tcp {
namespace {

// What is written can be read. Not thread-safe.
class MemoryStream final : public ByteStream {
 public:
  explicit MemoryStream(uint64_t seed) : random_(seed) {}

  absl::StatusOr<size_t> Read(const iovec* parts, int count) override {
    size_t got = 0;
    const size_t limit = std::min<size_t>(Piece(), bytes_.size() - read_);
    for (int i = 0; i < count && got < limit; ++i) {
      const size_t part = std::min(parts[i].iov_len, limit - got);
      std::memcpy(parts[i].iov_base, bytes_.data() + read_ + got, part);
      got += part;
    }
    read_ += got;
    return got;
  }
  absl::StatusOr<size_t> Write(const iovec* parts, int count) override {
    const size_t limit = std::min(Piece(), capacity_ - bytes_.size());
    size_t put = 0;
    for (int i = 0; i < count && put < limit; ++i) {
      const size_t part = std::min(parts[i].iov_len, limit - put);
      bytes_.append(static_cast<const char*>(parts[i].iov_base), part);
      put += part;
    }
    return put;
  }
  void EndWriting() override {}
  int fd() const override { return -1; }

  bool AllRead() const { return read_ == bytes_.size(); }
  // Takes so many bytes in all.
  void set_capacity(size_t bytes) { capacity_ = bytes; }
  void Damage(size_t at) { bytes_[at] = static_cast<char>(bytes_[at] ^ 1); }
  size_t size() const { return bytes_.size(); }

 private:
  size_t Piece() { return 1 + random_() % 5000; }
  std::mt19937_64 random_;
  std::string bytes_;
  size_t read_ = 0;
  size_t capacity_ = SIZE_MAX;
};

// Sends payloads of its own bytes, one after the other.
class Source final : public FrameSource {
 public:
  explicit Source(std::vector<std::string> payloads)
      : payloads_(std::move(payloads)) {}
  bool NextFrames(uint32_t edge, std::string* out,
                  OutgoingPayload* payload) override {
    if (next_ == payloads_.size()) return false;
    std::string& bytes = payloads_[next_];
    AppendFrame(FrameType::kPayload, edge, EncodeNumber(next_), out,
                bytes.size());
    payload->present = true;
    payload->sequence = next_++;
    const size_t half = bytes.size() / 2;
    if (half > 0) payload->parts.push_back(iovec{bytes.data(), half});
    if (bytes.size() > half) {
      payload->parts.push_back(iovec{bytes.data() + half, bytes.size() - half});
    }
    return next_ < payloads_.size();
  }
  void OnPayloadGone(uint64_t sequence) override { gone.push_back(sequence); }

  std::vector<uint64_t> gone;

 private:
  std::vector<std::string> payloads_;
  size_t next_ = 0;
};

class Sink final : public FrameReader::Handler {
 public:
  absl::Status OnFrame(const Frame& frame) override {
    frames.push_back(std::string(frame.body));
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<iovec>> OnPayload(const Frame& frame) override {
    edges.push_back(frame.edge);
    payloads.emplace_back(frame.payload_bytes, '?');
    cancelled.push_back(false);
    if (drop || frame.payload_bytes == 0) return std::vector<iovec>();
    std::string& bytes = payloads.back();
    const size_t third = bytes.size() / 3;
    return std::vector<iovec>{{bytes.data(), third},
                              {bytes.data() + third, bytes.size() - third}};
  }
  absl::Status OnPayloadEnd(bool was_cancelled) override {
    cancelled.back() = was_cancelled;
    ++ends;
    return absl::OkStatus();
  }

  bool drop = false;
  int ends = 0;
  std::vector<std::string> frames;
  std::vector<uint32_t> edges;
  std::vector<std::string> payloads;
  std::vector<bool> cancelled;
};

class FrameStreamTest : public ::testing::TestWithParam<bool> {
 protected:
  FrameStreamTest()
      : seed_(std::random_device()()),
        random_(seed_),
        stream_(seed_ + 1),
        writer_([](const ByteStream*, absl::Status) {}),
        reader_(&counters_) {
    writer_.Attach(&stream_);
    writer_.Establish(GetParam());
    reader_.RequireChecksum(GetParam());
  }
  std::vector<std::string> RandomPayloads(int count) {
    std::vector<std::string> payloads;
    for (int i = 0; i < count; ++i) {
      std::string bytes(random_() % 8 == 0 ? 0 : random_() % 20000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random_());
      payloads.push_back(std::move(bytes));
    }
    return payloads;
  }
  absl::Status ReadAll() {
    while (!stream_.AllRead()) {
      const absl::Status status = reader_.Read(&stream_, &sink_, true);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  Counters counters_;
  MemoryStream stream_;
  FrameWriter writer_;
  FrameReader reader_;
  Sink sink_;
};

TEST_P(FrameStreamTest, PayloadsOfTwoEdgesArriveWholeAndInTurns) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  const std::vector<std::string> first = RandomPayloads(20);
  const std::vector<std::string> second = RandomPayloads(20);
  const auto a = std::make_shared<Source>(first);
  const auto b = std::make_shared<Source>(second);
  writer_.Push(FrameType::kOpenEdge, 0, "hello");
  writer_.MarkReady(0, a);
  writer_.MarkReady(1, b);
  writer_.Flush();
  EXPECT_TRUE(writer_.IsIdle());
  EXPECT_EQ(a->gone.size(), 20u);
  ASSERT_TRUE(ReadAll().ok());
  ASSERT_EQ(sink_.payloads.size(), 40u);
  EXPECT_EQ(sink_.frames, std::vector<std::string>{"hello"});
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(sink_.edges[i], i % 2);
    EXPECT_EQ(sink_.payloads[i], (i % 2 == 0 ? first : second)[i / 2]) << i;
  }
}

TEST_P(FrameStreamTest, DroppedPayloadsLeaveTheRestInStep) {
  const auto source = std::make_shared<Source>(RandomPayloads(5));
  sink_.drop = true;
  writer_.MarkReady(0, source);
  writer_.Flush();
  writer_.Push(FrameType::kOpenEdge, 0, "after");
  writer_.Flush();
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_EQ(sink_.ends, 5);
  EXPECT_EQ(sink_.frames, std::vector<std::string>{"after"});
}

// The owner wants its bytes back when some of them are in the stream.
TEST_P(FrameStreamTest, APayloadTakenBackHalfWayIsMadeUpAndMarked) {
  constexpr size_t kBytes = 200'000;
  size_t before = 0;
  for (const size_t sent : {0, 1, 40, 41, 10'000, 199'999}) {
    const auto source = std::make_shared<Source>(
        std::vector<std::string>{std::string(kBytes, 'x')});
    stream_.set_capacity(before + sent);
    writer_.MarkReady(7, source);
    writer_.Flush();
    EXPECT_TRUE(source->gone.empty());
    writer_.Release(source.get());
    EXPECT_EQ(source->gone, std::vector<uint64_t>{0});
    writer_.Push(FrameType::kCloseEdge, 7, {});
    stream_.set_capacity(SIZE_MAX);
    writer_.Flush();
    ASSERT_TRUE(ReadAll().ok());
    EXPECT_TRUE(sink_.cancelled.back()) << sent;
    const size_t header = sizeof(FrameHeader) + sizeof(uint64_t);
    EXPECT_EQ(static_cast<size_t>(std::count(sink_.payloads.back().begin(),
                                             sink_.payloads.back().end(), 'x')),
              sent > header ? sent - header : 0);
    before = stream_.size();
  }
  EXPECT_EQ(sink_.frames.size(), 6u);
}

TEST_P(FrameStreamTest, DamageIsSeenWhereThereAreChecksums) {
  const auto source = std::make_shared<Source>(
      std::vector<std::string>{std::string(1000, 'x')});
  writer_.MarkReady(0, source);
  writer_.Flush();
  stream_.Damage(sizeof(FrameHeader) + 8 + 500);
  const absl::Status status = ReadAll();
  EXPECT_EQ(status.ok(), !GetParam()) << status;
  EXPECT_EQ(counters_.Refused(Refusal::kChecksum), GetParam() ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Checksum, FrameStreamTest, ::testing::Bool());

}  // namespace
}  // namespace stagecoach::transport::tcp
