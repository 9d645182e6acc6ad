#include "coordinator/journal/sqlite_journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/status.h"

namespace stagecoach::coordinator {

SqliteJournal::SqliteJournal(const Options& options,
                             std::unique_ptr<DataDirectory> directory)
    : options_(options), directory_(std::move(directory)) {}

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(
    const Options& options) {
  SC_ASSIGN_OR_RETURN(auto directory,
                      DataDirectory::Open(options.directory, true));
  auto journal = std::unique_ptr<SqliteJournal>(
      new SqliteJournal(options, std::move(directory)));
  absl::Status status = journal->OpenFile();
  if (absl::IsDataLoss(status)) {
    status = absl::DataLossError(
        absl::StrCat("the journal is damaged: ", status.message(),
                     "; `stagecoach-coordinator check ", options.directory,
                     "` says what can be done"));
  }
  SC_RETURN_IF_ERROR(status);
  return journal;
}

absl::Status SqliteJournal::OpenFile() {
  SC_ASSIGN_OR_RETURN(const std::optional<JournalMark> mark,
                      directory_->ReadMark());
  const int64_t newest = directory_->NewestGeneration();
  if (!mark.has_value() && newest > 0) {
    // The mark is written before the first event.
    return absl::DataLossError(
        absl::StrCat(directory_->path(), "/mark is missing"));
  }
  if (mark.has_value()) mark_ = *mark;
  SqliteDatabase::Options database;
  database.path = directory_->JournalPath(mark_.generation);
  database.page_size = options_.page_size;
  database.vfs = options_.vfs;
  if (mark_.sequence > 0) {
    // First without touching anything: writing could destroy what is left.
    database.look_only = true;
    SC_ASSIGN_OR_RETURN(auto file, JournalFile::Open(database));
    contents_ = file->Read(mark_.sequence);
    SC_RETURN_IF_ERROR(contents_.damage);
    database.look_only = false;
  }
  if (!mark.has_value()) SC_RETURN_IF_ERROR(directory_->ReplaceMark(mark_));
  SC_ASSIGN_OR_RETURN(file_, JournalFile::Open(database));
  if (mark_.sequence == 0) {
    contents_ = file_->Read(0);
    SC_RETURN_IF_ERROR(contents_.damage);
    SC_RETURN_IF_ERROR(directory_->Sync());
  }
  mark_.sequence = contents_.sequence;
  return directory_->ReplaceMark(mark_);
}

absl::Status SqliteJournal::Append(const Event& event) {
  SC_FAILPOINT("journal.append.before");
  later_.push_back(event);
  absl::Status status = Write();
  if (!status.ok()) later_.pop_back();
  SC_FAILPOINT("journal.append.after");
  return status;
}

absl::Status SqliteJournal::Flush() {
  if (later_.empty()) return absl::OkStatus();
  SC_FAILPOINT("journal.flush.before");
  absl::Status status = Write();
  SC_FAILPOINT("journal.flush.after");
  return status;
}

absl::Status SqliteJournal::Write() {
  int64_t bytes = 0;
  SC_RETURN_IF_ERROR(file_->Append(mark_.sequence + 1, term_, later_, &bytes));
  mark_.sequence += static_cast<int64_t>(later_.size());
  contents_.event_bytes += bytes;
  later_.clear();
  // It only has to follow, so its failure is no reason to stop.
  if (const absl::Status status = directory_->UpdateMark(mark_); !status.ok()) {
    LogWarning(absl::StrCat("the journal's mark: ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::Compact(const ClusterState& state) {
  if (contents_.event_bytes <
      std::max(options_.snapshot_bytes, contents_.snapshot_bytes)) {
    return absl::OkStatus();
  }
  SC_RETURN_IF_ERROR(Flush());
  int64_t bytes = 0;
  SC_RETURN_IF_ERROR(file_->WriteSnapshot(mark_.sequence, state, &bytes));
  LogInfo(absl::StrCat("journal: a snapshot of ", bytes, " bytes at event ",
                       mark_.sequence, " takes the place of ",
                       contents_.event_bytes, " bytes of events"));
  contents_.snapshot_bytes = bytes;
  contents_.event_bytes = 0;
  contents_.snapshot_sequence = mark_.sequence;
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator
