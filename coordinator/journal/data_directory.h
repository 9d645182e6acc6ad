#ifndef STAGECOACH_COORDINATOR_JOURNAL_DATA_DIRECTORY_H_
#define STAGECOACH_COORDINATOR_JOURNAL_DATA_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stagecoach::coordinator {

// How far the journal was written, kept apart from it: SQLite takes a damaged
// end of its log for one that was never written, and would silently go back to
// an older state. Written after each event, without waiting for the disk: it
// may lag behind, but never runs ahead.
struct JournalMark {
  int64_t generation =
      1;                 // which file is the journal; repairing makes a new one
  int64_t sequence = 0;  // of the last event that is durable
};

// A coordinator's folder, locked for as long as this object lives:
//
//   lock            locked; says who holds it
//   mark            a JournalMark
//   journal-N.db    generation N, and SQLite's log beside it
//
// Thread-compatible. Blocks.
class DataDirectory {
 public:
  // Creates the folder (not its parents) if `create`. kAlreadyExists: another
  // process has it, named in the message; kNotFound: no such folder;
  // kPermissionDenied and others as the system says.
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Open(
      const std::string& path, bool create);
  ~DataDirectory();

  const std::string& path() const { return path_; }
  std::string JournalPath(int64_t generation) const;
  // The greatest of which there is a file; 0 if there is none.
  int64_t NewestGeneration() const;

  // nullopt: there is none. kDataLoss: it is damaged.
  absl::StatusOr<std::optional<JournalMark>> ReadMark() const;
  // Replaces the file as a whole; durable.
  absl::Status ReplaceMark(const JournalMark& mark);
  // Overwrites it in place, whatever ReplaceMark wrote last being there. Never
  // needs more room on the disk.
  absl::Status UpdateMark(const JournalMark& mark);
  // Makes new and renamed files durable.
  absl::Status Sync() const;

 private:
  DataDirectory(std::string path, int lock)
      : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;
  int mark_ = -1;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_DATA_DIRECTORY_H_
