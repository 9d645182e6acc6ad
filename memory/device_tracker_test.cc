#include "memory/device_tracker.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace stagecoach::memory {
namespace {

using Kind = DeviceEvent::Kind;

constexpr int64_t kMib = int64_t{1} << 20;

DeviceEvent Event(Kind kind, uint64_t address, int64_t bytes) {
  DeviceEvent event;
  event.kind = kind;
  event.address = address;
  event.bytes = bytes;
  return event;
}

Tag TagOf(Category category, int stage = -1) {
  Tag tag;
  tag.category = category;
  tag.stage = StageIndex(stage);
  return tag;
}

int64_t Of(const DeviceTrackerStats& stats, Category category) {
  return stats.categories[static_cast<size_t>(category)].current;
}

int64_t SumOfCategories(const DeviceTrackerStats& stats) {
  int64_t sum = 0;
  for (const Gauge& gauge : stats.categories) sum += gauge.current;
  return sum;
}

Category CategoryNamed(const std::string& name) {
  for (int i = 0; i < kCategories; ++i) {
    if (name == CategoryName(static_cast<Category>(i))) {
      return static_cast<Category>(i);
    }
  }
  ADD_FAILURE() << "no category " << name;
  return Category::kOther;
}

// Replays a trace; the figures at each snapshot in it, and at the end.
std::vector<DeviceTrackerStats> Replay(const std::string& file,
                                       DeviceTracker* tracker) {
  std::ifstream trace(file);
  EXPECT_TRUE(trace.is_open()) << file;
  std::vector<DeviceTrackerStats> seen;
  Tag tag;
  for (std::string line; std::getline(trace, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "tag") {
      std::string category;
      int stage = 0;
      int microbatch = 0;
      EXPECT_TRUE(words >> category >> stage >> microbatch) << line;
      tag = TagOf(CategoryNamed(category), stage);
      tag.microbatch = MicrobatchIndex(microbatch);
      continue;
    }
    DeviceEvent event;
    EXPECT_TRUE(ParseDeviceEventKind(word, &event.kind)) << line;
    EXPECT_TRUE(words >> std::hex >> event.address >> std::dec >> event.bytes)
        << line;
    tracker->OnEvent(event, tag);
    EXPECT_EQ(SumOfCategories(tracker->Stats()),
              tracker->Stats().requested_bytes.current)
        << line;
    if (event.kind == Kind::kSnapshot) seen.push_back(tracker->Stats());
  }
  seen.push_back(tracker->Stats());
  return seen;
}

TEST(DeviceTrackerTest, AccountsForAMicrobatch) {
  DeviceTracker tracker;
  const std::vector<DeviceTrackerStats> seen =
      Replay("memory/testdata/device_trace.txt", &tracker);
  ASSERT_EQ(seen.size(), 2u);
  // After the forward.
  EXPECT_EQ(Of(seen[0], Category::kParameter), 13107200);
  EXPECT_EQ(Of(seen[0], Category::kActivation), 2 * 524288 + 131072);
  EXPECT_EQ(seen[0].stage_activation_bytes.at(StageIndex(1)),
            2 * 524288 + 131072);
  EXPECT_EQ(seen[0].reserved_bytes.current, 42 * kMib);
  // At the end.
  EXPECT_EQ(Of(seen[1], Category::kActivation), 0);
  EXPECT_EQ(seen[1].requested_bytes.current, 2 * 13107200);
  EXPECT_EQ(seen[1].active_bytes.current, seen[1].requested_bytes.current);
  EXPECT_EQ(seen[1].reserved_bytes.current, 40 * kMib);
  EXPECT_EQ(seen[1].reserved_bytes.peak, 44 * kMib);
  EXPECT_EQ(seen[1].out_of_memory, 1);
  EXPECT_EQ(seen[1].unknown_frees, 0);
  tracker.ResetPeaks();
  EXPECT_EQ(tracker.Stats().reserved_bytes.peak, 40 * kMib);
}

TEST(DeviceTrackerTest, ABlockThatAnotherStreamUsesIsActiveAndNotItsOwners) {
  DeviceTracker tracker;
  const Tag output = TagOf(Category::kActivation, 2);
  tracker.OnEvent(Event(Kind::kAllocate, 64, 100), output);
  tracker.OnEvent(Event(Kind::kFreeRequested, 64, 100), Tag());
  EXPECT_EQ(tracker.Stats().requested_bytes.current, 0);
  EXPECT_EQ(tracker.Stats().stage_activation_bytes.at(StageIndex(2)), 0);
  EXPECT_EQ(tracker.Stats().active_bytes.current, 100);
  tracker.OnEvent(Event(Kind::kFreeCompleted, 64, 100), Tag());
  EXPECT_EQ(tracker.Stats().active_bytes.current, 0);
}

TEST(DeviceTrackerTest, BlocksFromBeforeItWasAttachedChangeNothing) {
  DeviceTracker tracker;
  tracker.OnEvent(Event(Kind::kFreeRequested, 64, 100), Tag());
  tracker.OnEvent(Event(Kind::kFreeCompleted, 64, 100), Tag());
  EXPECT_EQ(tracker.Stats().unknown_frees, 1);
  EXPECT_EQ(tracker.Stats().requested_bytes.freed, 0);
  // The end of one was missed: its place is given again.
  tracker.OnEvent(Event(Kind::kAllocate, 64, 100), Tag());
  tracker.OnEvent(Event(Kind::kAllocate, 64, 30), Tag());
  EXPECT_EQ(tracker.Stats().requested_bytes.current, 30);
  EXPECT_EQ(tracker.Stats().active_bytes.current, 30);
}

TEST(DeviceTrackerTest, TakesTheTagOfTheCallingThread) {
  DeviceTracker tracker;
  {
    const ScopedTag tag(TagOf(Category::kGradient));
    tracker.OnEvent(Event(Kind::kAllocate, 64, 7));
  }
  EXPECT_EQ(Of(tracker.Stats(), Category::kGradient), 7);
}

// Any order of calls: categories and total agree, nothing is lost.
TEST(DeviceTrackerTest, CategoriesAddUpWhateverHappens) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&random](int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  };
  DeviceTracker tracker;
  for (int i = 0; i < 5000; ++i) {
    const auto kind = static_cast<Kind>(draw(2));
    tracker.OnEvent(
        Event(kind, static_cast<uint64_t>(draw(20)), 1 + draw(99)),
        TagOf(static_cast<Category>(draw(kCategories - 1)), draw(3)));
    const DeviceTrackerStats stats = tracker.Stats();
    ASSERT_EQ(SumOfCategories(stats), stats.requested_bytes.current);
    ASSERT_LE(stats.requested_bytes.current, stats.active_bytes.current);
    ASSERT_GE(stats.requested_bytes.current, 0);
  }
}

TEST(DeviceTrackerTest, KnowsNoOtherWords) {
  Kind kind = Kind::kOutOfMemory;
  EXPECT_FALSE(ParseDeviceEventKind("allocate", &kind));
  EXPECT_EQ(kind, Kind::kOutOfMemory);
}

TEST(DeviceMemoryMeterTest, EveryUsedByteIsOfAPart) {
  DeviceMemoryMeter meter;
  meter.OnContext(100 * kMib, 600 * kMib);
  // Two communicators, while a segment of 20 MiB came.
  meter.OnCommunicators(600 * kMib, 800 * kMib, 20 * kMib);
  const DeviceMemory memory = meter.Split(900 * kMib, 120 * kMib);
  EXPECT_EQ(memory.context, 500 * kMib);
  EXPECT_EQ(memory.communicator, 180 * kMib);
  EXPECT_EQ(memory.other(), 100 * kMib) << "what was there before the context";
  EXPECT_EQ(
      memory.reserved + memory.communicator + memory.context + memory.other(),
      memory.used);
  // They end.
  meter.OnCommunicators(900 * kMib, 720 * kMib, 0);
  EXPECT_EQ(meter.Split(720 * kMib, 120 * kMib).communicator, 0);
}

}  // namespace
}  // namespace stagecoach::memory
