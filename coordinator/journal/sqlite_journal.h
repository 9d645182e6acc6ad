#ifndef STAGECOACH_COORDINATOR_JOURNAL_SQLITE_JOURNAL_H_
#define STAGECOACH_COORDINATOR_JOURNAL_SQLITE_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cluster_state.h"
#include "coordinator/journal.h"
#include "coordinator/journal/data_directory.h"
#include "coordinator/journal/journal_file.h"

namespace stagecoach::coordinator {

// The journal of a coordinator with a data directory, in SQLite: write-ahead
// log, full synchronisation, one coordinator at a time. Owns the directory's
// lock. Thread-compatible.
class SqliteJournal final : public Journal {
 public:
  struct Options {
    std::string directory;  // created if it is not there
    // Events of at least so many bytes, and as many as the snapshot has, come
    // together before Compact makes a new snapshot.
    int64_t snapshot_bytes = int64_t{4} << 20;
    // For tests.
    int page_size = 4096;
    std::string vfs;
  };

  // Reads what there is. kAlreadyExists: another process has the directory;
  // kDataLoss: the journal is damaged, and how `stagecoach-coordinator` can
  // help; kFailedPrecondition: a newer version wrote it.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(
      const Options& options);

  // What the events in the journal at Open made. Once.
  ClusterState TakeState() { return std::move(contents_.state); }
  // The term of events to come.
  void SetTerm(Term term) { term_ = term; }

  absl::Status Append(const Event& event) override;
  void AppendLater(const Event& event) override { later_.push_back(event); }
  absl::Status Flush() override;
  size_t unwritten() const override { return later_.size(); }
  absl::Status Compact(const ClusterState& state) override;

  int64_t sequence() const { return mark_.sequence; }

 private:
  SqliteJournal(const Options& options,
                std::unique_ptr<DataDirectory> directory);
  absl::Status OpenFile();
  absl::Status Write();

  const Options options_;
  const std::unique_ptr<DataDirectory> directory_;
  std::unique_ptr<JournalFile> file_;
  JournalContents contents_;
  JournalMark mark_;
  Term term_;
  std::vector<Event> later_;
};

// Whether a data directory is sound, in words for people. Changes nothing.
// kDataLoss: it is damaged; the message says where and what can be done. Errors
// else as SqliteJournal::Open, kNotFound if there is no journal.
absl::StatusOr<std::string> CheckDataDirectory(const std::string& path);

// Cuts off a damaged end, in a new file; what was lost is said in words, and
// the damaged file stays where it is. OK, too, if there was nothing to do.
// kDataLoss: the damage is not at the end, or nothing can be read: nothing was
// changed.
absl::StatusOr<std::string> RepairDataDirectory(const std::string& path);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_SQLITE_JOURNAL_H_
