// A full or failing disk at every change of a file: the caller is told, the
// event did not happen, and the next one may.
#include <sqlite3.h>

#include <string>

#include "absl/strings/str_cat.h"
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
  }
  // Each append writes and synchronises.
  EXPECT_GE(faults, 20);
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
