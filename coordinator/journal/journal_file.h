#ifndef STAGECOACH_COORDINATOR_JOURNAL_JOURNAL_FILE_H_
#define STAGECOACH_COORDINATOR_JOURNAL_JOURNAL_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cluster_state.h"
#include "coordinator/event.h"
#include "coordinator/journal/sqlite.h"

namespace stagecoach::coordinator {

// What a journal file holds, as far as it can be read and believed.
struct JournalContents {
  ClusterState state;
  // Of the last event that `state` contains, and of the snapshot that it began
  // with; 0: none.
  int64_t sequence = 0;
  int64_t snapshot_sequence = 0;
  int64_t event_bytes = 0;  // of the events after the snapshot
  int64_t snapshot_bytes = 0;
  // OK, or kDataLoss and where; kFailedPrecondition: a newer version wrote it.
  absl::Status damage;
  // Nothing that follows the damage can be read: events up to `last_lost` are
  // gone, and without them the journal is whole.
  bool damage_is_tail = false;
  int64_t last_lost = 0;
};

// The tables of one journal: events with their sequence number, term, schema
// version and CRC, and at most one snapshot that stands for the events before
// them. Thread-compatible; blocks. Errors as SqliteDatabase's.
class JournalFile {
 public:
  // Creates the tables in a new file.
  static absl::StatusOr<std::unique_ptr<JournalFile>> Open(
      const SqliteDatabase::Options& options);

  // Reads everything and checks all that can be checked: numbers without gaps,
  // CRCs, that each event can follow the one before, and that there are
  // `expected` events at least.
  JournalContents Read(int64_t expected);

  // In one transaction, numbered from `sequence`; adds their size to *bytes. An
  // error leaves nothing of it, now or after a crash, as soon as any later call
  // succeeds.
  absl::Status Append(int64_t sequence, Term term,
                      const std::vector<Event>& events, int64_t* bytes);
  // Replaces the events up to `sequence`, and any older snapshot.
  absl::Status WriteSnapshot(int64_t sequence, const ClusterState& state,
                             int64_t* bytes);
  // Moves everything from SQLite's log into the file itself.
  absl::Status Checkpoint();

 private:
  explicit JournalFile(std::unique_ptr<SqliteDatabase> database)
      : database_(std::move(database)) {}
  absl::Status CheckLayout();
  absl::Status CreateTables();
  absl::Status ReadSnapshot(JournalContents* contents);
  absl::Status ReadEvents(JournalContents* contents);
  // Whether any sound event has this number or a greater one.
  bool AnythingFrom(int64_t first);
  absl::Status InTransaction(const std::function<absl::Status()>& work);
  absl::Status InsertEvent(int64_t sequence, Term term, const Event& event,
                           int64_t* bytes);
  absl::Status InsertParts(int64_t sequence, const ClusterState& state,
                           int64_t* bytes);

  const std::unique_ptr<SqliteDatabase> database_;
  // SQLite's log may hold a transaction that was reported as failed.
  bool log_is_doubtful_ = false;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_JOURNAL_FILE_H_
