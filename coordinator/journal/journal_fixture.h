#ifndef STAGECOACH_COORDINATOR_JOURNAL_JOURNAL_FIXTURE_H_
#define STAGECOACH_COORDINATOR_JOURNAL_JOURNAL_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"
#include "coordinator/event.h"
#include "coordinator/journal/sqlite_journal.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {

// A folder for data directories, and random histories to write into them.
class JournalTest : public ::testing::Test {
 protected:
  JournalTest();
  ~JournalTest() override;

  std::string Directory(const std::string& name = "data") const {
    return root_ + "/" + name;
  }
  // Small pages, so that files are small.
  SqliteJournal::Options Options(const std::string& name = "data") const;
  std::unique_ptr<SqliteJournal> MustOpen(const std::string& name = "data");
  // The state in the directory; the test fails if it cannot be opened.
  std::string Stored(const std::string& name = "data");

  // `count` events that follow each other from the empty state.
  static std::vector<Event> History(uint32_t seed, int count);
  // The state after the first `count` of them.
  static ClusterState StateAfter(const std::vector<Event>& events,
                                 size_t count);

  static std::string ReadBytes(const std::string& path);
  static void WriteBytes(const std::string& path, const std::string& bytes);
  void Copy(const std::string& from, const std::string& to) const;

 private:
  std::string root_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_JOURNAL_FIXTURE_H_
