// A full or failing disk at every change of a file: the caller is told, the
// event did not happen, and the next one may.
#include <sqlite3.h>

#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "coordinator/journal/faulty_vfs.h"
#include "coordinator/journal/journal_fixture.h"
#include "coordinator/journal/sqlite_journal.h"

namespace stagecoach::coordinator {
namespace {

class JournalFaultTest : public JournalTest,
                         public ::testing::WithParamInterface<int> {
 protected:
  ~JournalFaultTest() override { FaultyVfs::Get().FailAt(0, 0, false); }
  SqliteJournal::Options FaultyOptions(const std::string& name) {
    SqliteJournal::Options options = Options(name);
    options.vfs = FaultyVfs::Get().name();
    options.snapshot_bytes = 1500;
    return options;
  }
  static absl::StatusCode Expected() {
    return GetParam() == SQLITE_FULL ? absl::StatusCode::kResourceExhausted
                                     : absl::StatusCode::kUnavailable;
  }
};

TEST_P(JournalFaultTest, OnceAtEachChange) {
  // Each of these follows any subset of the others.
  std::vector<Event> events(12);
  for (size_t i = 0; i < events.size(); ++i) {
    WorkerRegistered worker;
    worker.worker = absl::StrCat("w", i);
    worker.host = std::string(100, 'h');
    events[i].body = worker;
  }
  int faults = 0;
  int changes = 0;
  for (int n = 1;; ++n) {
    SCOPED_TRACE(absl::StrCat("change ", n));
    const std::string name = absl::StrCat("data", n);
    FaultyVfs::Get().FailAt(n, GetParam(), false);
    auto journal = SqliteJournal::Open(FaultyOptions(name));
    if (!journal.ok()) {
      EXPECT_EQ(journal.status().code(), Expected()) << journal.status();
      journal = SqliteJournal::Open(FaultyOptions(name));
      ASSERT_TRUE(journal.ok()) << journal.status();
    }
    ClusterState state;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      const absl::Status status = (*journal)->Append(events[i]);
      if (status.ok()) {
        ASSERT_TRUE(state.Apply(events[i]).ok());
        (*journal)->Compact(state).IgnoreError();
        continue;
      }
      ++faults;
      EXPECT_EQ(status.code(), Expected()) << status;
      // Once anything else is written, also a crash does not bring it back.
      ASSERT_TRUE((*journal)->Append(events[i + 1]).ok());
      ASSERT_TRUE(state.Apply(events[i + 1]).ok());
      Copy(name, "crashed");
      EXPECT_EQ(Stored("crashed"), state.DebugString());
      break;
    }
    journal->reset();
    EXPECT_EQ(Stored(name), state.DebugString());
    if (!FaultyVfs::Get().has_failed()) break;
    ++changes;
  }
  // Each append writes and synchronises.
  EXPECT_GE(faults, 20);
  std::cout << changes << " changes of files failed, one after the other; "
            << faults << " events refused, none lost, none doubled\n";
}

// Also the mark beside it: that only has to follow.
TEST_F(JournalTest, AFullDiskForTheMarkRefusesNoEvent) {
  if (!FailpointsAreBuilt()) GTEST_SKIP() << "needs --config=failpoints";
  const std::vector<Event> events = History(5, 6);
  int refused = 0;
  int n = 0;
  for (bool failed = true; failed;) {
    SCOPED_TRACE(absl::StrCat("write ", ++n));
    const std::string name = absl::StrCat("mark", n);
    ASSERT_TRUE(SetFailpoint("journal.mark", absl::StrCat("error@", n)).ok());
    auto journal = SqliteJournal::Open(Options(name));
    if (!journal.ok()) {
      ++refused;
      EXPECT_TRUE(absl::IsResourceExhausted(journal.status()));
      journal = SqliteJournal::Open(Options(name));
      ASSERT_TRUE(journal.ok()) << journal.status();
    }
    for (const Event& event : events) {
      EXPECT_TRUE((*journal)->Append(event).ok());
    }
    for (const FailpointState& point : ListFailpoints()) {
      if (point.name == "journal.mark") failed = point.action == "off";
    }
    ASSERT_TRUE(SetFailpoint("journal.mark", "off").ok());
    Copy(name, "crashed");
    journal->reset();
    EXPECT_EQ(Stored(name), StateAfter(events, 6).DebugString());
    EXPECT_EQ(Stored("crashed"), StateAfter(events, 6).DebugString());
  }
  EXPECT_GT(n, 6);
  EXPECT_GT(refused, 0);
  std::cout << n - 1 << " writes of the mark failed, one after the other; no "
            << "event refused, none lost\n";
}

TEST_P(JournalFaultTest, WhatWaitsIsKeptUntilTheDiskTakesIt) {
  const std::vector<Event> events = History(4, 6);
  auto journal = SqliteJournal::Open(FaultyOptions("data")).value();
  journal->AppendLater(events[0]);
  journal->AppendLater(events[1]);
  FaultyVfs::Get().FailAt(1, GetParam(), true);
  EXPECT_EQ(journal->Flush().code(), Expected());
  EXPECT_EQ(journal->Append(events[2]).code(), Expected());
  EXPECT_EQ(journal->unwritten(), 2u);
  FaultyVfs::Get().FailAt(0, 0, false);
  ASSERT_TRUE(journal->Append(events[2]).ok());
  journal.reset();
  EXPECT_EQ(Stored(), StateAfter(events, 3).DebugString());
}

INSTANTIATE_TEST_SUITE_P(Codes, JournalFaultTest,
                         ::testing::Values(SQLITE_FULL, SQLITE_IOERR_WRITE,
                                           SQLITE_IOERR_FSYNC),
                         [](const auto& code) {
                           return absl::StrCat("code", code.param);
                         });

}  // namespace
}  // namespace stagecoach::coordinator
