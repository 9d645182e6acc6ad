#include "coordinator/journal/journal_fixture.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "coordinator/random_events.h"

namespace stagecoach::coordinator {

namespace fs = std::filesystem;

JournalTest::JournalTest() {
  // In memory where there is such a folder: thousands of small files come and
  // go.
  const char* folder = fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  std::string pattern = absl::StrCat(folder, "/journal-test-XXXXXX");
  root_ = mkdtemp(pattern.data());
}

JournalTest::~JournalTest() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

SqliteJournal::Options JournalTest::Options(const std::string& name) const {
  SqliteJournal::Options options;
  options.directory = Directory(name);
  options.page_size = 512;
  return options;
}

std::unique_ptr<SqliteJournal> JournalTest::MustOpen(const std::string& name) {
  auto journal = SqliteJournal::Open(Options(name));
  EXPECT_TRUE(journal.ok()) << journal.status();
  return journal.ok() ? *std::move(journal) : nullptr;
}

std::string JournalTest::Stored(const std::string& name) {
  auto journal = MustOpen(name);
  return journal == nullptr ? "" : journal->TakeState().DebugString();
}

std::vector<Event> JournalTest::History(uint32_t seed, int count) {
  RandomEvents source(seed);
  ClusterState state;
  std::vector<Event> events;
  while (static_cast<int>(events.size()) < count) {
    const Event event = source.Next(state);
    if (state.Apply(event).ok()) events.push_back(event);
  }
  return events;
}

ClusterState JournalTest::StateAfter(const std::vector<Event>& events,
                                     size_t count) {
  ClusterState state;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(state.Apply(events[i]).ok());
  }
  return state;
}

std::string JournalTest::ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

void JournalTest::WriteBytes(const std::string& path,
                             const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void JournalTest::Copy(const std::string& from, const std::string& to) const {
  fs::remove_all(Directory(to));
  fs::copy(Directory(from), Directory(to));
}

}  // namespace stagecoach::coordinator
