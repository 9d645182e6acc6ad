// Damage of every kind at every place of a small journal: it is noticed, or
// does not matter; never is another state taken for the one that was written.
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/event_codec.h"
#include "coordinator/journal/journal_file.h"
#include "coordinator/journal/journal_fixture.h"
#include "coordinator/journal/sqlite_journal.h"

namespace stagecoach::coordinator {
namespace {

namespace fs = std::filesystem;

struct Counts {
  int detected = 0;
  int harmless = 0;
};

class JournalDamageTest : public JournalTest {
 protected:
  // A journal of a killed process: a snapshot and events in the file, more
  // events in SQLite's log.
  void Write() {
    events_ = History(7, kEvents);
    SqliteJournal::Options options = Options("live");
    options.snapshot_bytes = 1;
    journal_ = SqliteJournal::Open(options).value();
    ClusterState state;
    for (size_t i = 0; i < events_.size(); ++i) {
      ASSERT_TRUE(journal_->Append(events_[i]).ok());
      ASSERT_TRUE(state.Apply(events_[i]).ok());
      if (i == 2) {
        ASSERT_TRUE(journal_->Compact(state).ok());
      }
      if (i == 4) {
        // Closing moves the log into the file.
        journal_.reset();
        journal_ = SqliteJournal::Open(options).value();
      }
    }
    Copy("live", "data");
    expected_ = state.DebugString();
  }

  // What a coordinator makes of the directory, one file of which is damaged.
  // Looking changes nothing, so thousands of kinds of damage follow each other
  // in one directory; some take the whole way that a coordinator takes.
  void Try(Counts* counts) {
    const bool whole_way = (counts->detected + counts->harmless) % 50 == 0;
    if (whole_way) {
      Copy("data", "hurt");
      const auto journal = SqliteJournal::Open(Options("hurt"));
      Count(journal.status(),
            journal.ok() ? (*journal)->TakeState().DebugString() : "", counts);
      return;
    }
    SqliteDatabase::Options database;
    database.path = Directory() + "/journal-1.db";
    database.look_only = true;
    const auto file = JournalFile::Open(database);
    if (!file.ok()) return Count(file.status(), "", counts);
    const JournalContents contents = (*file)->Read(kEvents);
    Count(contents.damage, contents.state.DebugString(), counts);
  }
  void Count(const absl::Status& status, const std::string& state,
             Counts* counts) {
    if (status.ok()) {
      EXPECT_EQ(state, expected_);
      ++counts->harmless;
    } else {
      ++counts->detected;
    }
  }

  // For each of the journal's files its bytes; each is whole again afterwards.
  void ForEachFile(const std::function<void(const std::string& path,
                                            const std::string& bytes,
                                            Counts* counts)>& visit) {
    for (const char* file : {"journal-1.db", "journal-1.db-wal"}) {
      const std::string path = Directory() + "/" + file;
      const std::string bytes = ReadBytes(path);
      ASSERT_FALSE(bytes.empty()) << file;
      Counts counts;
      visit(path, bytes, &counts);
      WriteBytes(path, bytes);
      std::cout << file << ": " << bytes.size() << " bytes, " << counts.detected
                << " detected, " << counts.harmless << " of no effect"
                << std::endl;
      EXPECT_GT(counts.detected, 0);
    }
  }

  static constexpr int kEvents = 8;
  std::vector<Event> events_;
  std::unique_ptr<SqliteJournal> journal_;
  std::string expected_;
};

TEST_F(JournalDamageTest, AFlippedBitAnywhere) {
  Write();
  ForEachFile([&](const std::string& path, const std::string& bytes,
                  Counts* counts) {
    for (size_t offset = 0; offset < bytes.size() && !HasFailure(); ++offset) {
      SCOPED_TRACE(absl::StrCat(path, " offset ", offset));
      std::string damaged = bytes;
      damaged[offset] =
          static_cast<char>(damaged[offset] ^ (1 << (offset * 5 % 8)));
      WriteBytes(path, damaged);
      Try(counts);
    }
  });
}

TEST_F(JournalDamageTest, ATruncationAnywhere) {
  Write();
  ForEachFile(
      [&](const std::string& path, const std::string& bytes, Counts* counts) {
        for (size_t size = 0; size < bytes.size() && !HasFailure(); ++size) {
          SCOPED_TRACE(absl::StrCat(path, " cut to ", size));
          WriteBytes(path, bytes.substr(0, size));
          Try(counts);
        }
      });
}

TEST_F(JournalDamageTest, AnyDamageOfTheMarkIsDetected) {
  Write();
  const std::string path = Directory() + "/mark";
  const std::string bytes = ReadBytes(path);
  for (size_t offset = 0; offset < bytes.size(); ++offset) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << bit));
      WriteBytes(path, damaged);
      EXPECT_EQ(SqliteJournal::Open(Options()).status().code(),
                absl::StatusCode::kDataLoss);
    }
    WriteBytes(path, bytes.substr(0, offset));
    EXPECT_EQ(SqliteJournal::Open(Options()).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST_F(JournalDamageTest, AMissingFile) {
  Write();
  for (const char* file : {"journal-1.db", "journal-1.db-wal", "mark"}) {
    Copy("data", "hurt");
    fs::remove(Directory("hurt") + "/" + file);
    EXPECT_FALSE(SqliteJournal::Open(Options("hurt")).ok()) << file;
  }
}

// The last events were in the part of the log that is damaged.
TEST_F(JournalDamageTest, ADamagedEndIsCutOffOnRequest) {
  Write();
  const std::string log = Directory() + "/journal-1.db-wal";
  std::string bytes = ReadBytes(log);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteBytes(log, bytes);
  const auto opened = SqliteJournal::Open(Options());
  ASSERT_EQ(opened.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(opened.status().message(),
                                absl::StrCat("check ", Directory())))
      << opened.status();
  const auto checked = CheckDataDirectory(Directory());
  ASSERT_EQ(checked.status().code(), absl::StatusCode::kDataLoss);
  for (const std::string& words :
       {absl::StrCat("event ", kEvents, " of ", kEvents),
        absl::StrCat("stagecoach-coordinator repair ", Directory()),
        absl::StrCat("gives up events ", kEvents, " to ", kEvents)}) {
    EXPECT_TRUE(absl::StrContains(checked.status().message(), words))
        << checked.status();
  }
  const auto repaired = RepairDataDirectory(Directory());
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_TRUE(absl::StrContains(*repaired, "journal-1.db")) << *repaired;
  EXPECT_TRUE(CheckDataDirectory(Directory()).ok());
  EXPECT_EQ(Stored(), StateAfter(events_, kEvents - 1).DebugString());
  // And it goes on from there.
  auto journal = MustOpen();
  ASSERT_TRUE(journal->Append(events_.back()).ok());
  journal.reset();
  EXPECT_EQ(Stored(), expected_);
}

TEST_F(JournalDamageTest, DamageInTheMiddleIsRefused) {
  const std::vector<Event> events = History(8, 60);
  auto journal = MustOpen();
  for (const Event& event : events) ASSERT_TRUE(journal->Append(event).ok());
  journal.reset();  // all in the file
  const std::string path = Directory() + "/journal-1.db";
  std::string bytes = ReadBytes(path);
  // A record in the middle, found by its bytes.
  v1::JournalEvent proto;
  ToProto(events[30], &proto);
  const size_t at = bytes.find(proto.SerializeAsString());
  ASSERT_NE(at, std::string::npos);
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  WriteBytes(path, bytes);
  const auto repaired = RepairDataDirectory(Directory());
  ASSERT_EQ(repaired.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(repaired.status().message(), "event 31 of 60"))
      << repaired.status();
  EXPECT_TRUE(absl::StrContains(repaired.status().message(), "backup"));
  EXPECT_EQ(ReadBytes(path), bytes);
}

TEST_F(JournalDamageTest, ALostMarkIsMadeAgainOnRequest) {
  Write();
  fs::remove(Directory() + "/mark");
  EXPECT_TRUE(absl::StrContains(
      CheckDataDirectory(Directory()).status().message(), "repair"));
  ASSERT_TRUE(RepairDataDirectory(Directory()).ok());
  EXPECT_EQ(Stored(), expected_);
}

}  // namespace
}  // namespace stagecoach::coordinator
