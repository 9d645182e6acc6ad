#include "coordinator/journal/sqlite_journal.h"

#include <unistd.h>

#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/journal/journal_fixture.h"
#include "coordinator/test_spec.h"

namespace stagecoach::coordinator {
namespace {

TEST_F(JournalTest, ANewDirectoryIsEmpty) {
  EXPECT_EQ(Stored(), ClusterState().DebugString());
  EXPECT_EQ(Stored(), ClusterState().DebugString());
}

// Appended one by one or later, compacted now and then, opened again and again.
TEST_F(JournalTest, ReplayGivesTheStateThatWasWritten) {
  const uint32_t first_seed = std::random_device()();
  for (uint32_t seed = first_seed; seed != first_seed + 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const std::string name = absl::StrCat("data", seed);
    const std::vector<Event> events = History(seed, 300);
    std::mt19937 random(seed);
    SqliteJournal::Options options = Options(name);
    options.snapshot_bytes = 4000;
    ClusterState state;
    size_t durable = 0;
    auto journal = SqliteJournal::Open(options).value();
    for (size_t i = 0; i < events.size(); ++i) {
      if (random() % 3 == 0) {
        journal->AppendLater(events[i]);
      } else {
        ASSERT_TRUE(journal->Append(events[i]).ok());
        durable = i + 1;
      }
      ASSERT_TRUE(state.Apply(events[i]).ok());
      if (random() % 20 == 0) {
        ASSERT_TRUE(journal->Compact(state).ok());
        durable = journal->unwritten() == 0 ? i + 1 : durable;
      }
      if (random() % 40 > 0) continue;
      ASSERT_TRUE(journal->Flush().ok());
      journal.reset();
      journal = SqliteJournal::Open(options).value();
      ASSERT_EQ(journal->TakeState().DebugString(), state.DebugString());
      durable = i + 1;
    }
    journal.reset();
    EXPECT_EQ(Stored(name), StateAfter(events, durable).DebugString());
  }
}

TEST_F(JournalTest, WhatWaitsIsWrittenWithTheNextEvent) {
  const std::vector<Event> events = History(1, 5);
  auto journal = MustOpen();
  journal->AppendLater(events[0]);
  journal->AppendLater(events[1]);
  EXPECT_EQ(journal->unwritten(), 2u);
  EXPECT_EQ(journal->sequence(), 0);
  ASSERT_TRUE(journal->Append(events[2]).ok());
  EXPECT_EQ(journal->unwritten(), 0u);
  EXPECT_EQ(journal->sequence(), 3);
  journal->AppendLater(events[3]);
  journal.reset();  // never written
  EXPECT_EQ(Stored(), StateAfter(events, 3).DebugString());
}

TEST_F(JournalTest, OneCoordinatorAtATime) {
  auto journal = MustOpen();
  const auto second = SqliteJournal::Open(Options());
  ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(absl::StrContains(second.status().message(),
                                absl::StrCat("process ", getpid())))
      << second.status();
  EXPECT_TRUE(absl::StrContains(second.status().message(), Directory()));
  EXPECT_EQ(CheckDataDirectory(Directory()).status().code(),
            absl::StatusCode::kAlreadyExists);
  journal.reset();
  EXPECT_NE(MustOpen(), nullptr);
}

TEST_F(JournalTest, CheckChangesNothingAndSaysWhatThereIs) {
  EXPECT_EQ(CheckDataDirectory(Directory()).status().code(),
            absl::StatusCode::kNotFound);
  const std::vector<Event> events = History(2, 40);
  auto journal = MustOpen();
  for (const Event& event : events) ASSERT_TRUE(journal->Append(event).ok());
  Copy("data", "copy");  // as a killed process leaves it: the log is full
  const std::string log = Directory("copy") + "/journal-1.db-wal";
  const std::string before = ReadBytes(log);
  ASSERT_FALSE(before.empty());
  const auto checked = CheckDataDirectory(Directory("copy"));
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_TRUE(absl::StrContains(*checked, "sound: 40 events")) << *checked;
  EXPECT_EQ(ReadBytes(log), before);
  const auto repaired = RepairDataDirectory(Directory("copy"));
  ASSERT_TRUE(repaired.ok());
  EXPECT_TRUE(absl::StrContains(*repaired, "nothing to repair"));
  EXPECT_EQ(Stored("copy"), StateAfter(events, 40).DebugString());
}

TEST_F(JournalTest, AKilledProcessLosesNothing) {
  const std::vector<Event> events = History(3, 60);
  auto journal = MustOpen();
  for (size_t i = 0; i < events.size(); ++i) {
    ASSERT_TRUE(journal->Append(events[i]).ok());
    if (i % 10 == 0) {
      Copy("data", "copy");
      EXPECT_EQ(Stored("copy"), StateAfter(events, i + 1).DebugString());
    }
  }
}

TEST_F(JournalTest, ABadPathIsRefusedByName) {
  SqliteJournal::Options options;
  options.directory = Directory("no") + "/such/folder";
  const auto journal = SqliteJournal::Open(options);
  EXPECT_EQ(journal.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(journal.status().message(), options.directory));
}

}  // namespace
}  // namespace stagecoach::coordinator
