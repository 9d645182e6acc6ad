#include "coordinator/journal/journal_file.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/event_codec.h"

namespace stagecoach::coordinator {
namespace {

constexpr int64_t kApplicationId = 0x53544a4c;  // "STJL"
constexpr int64_t kLayoutVersion = 1;

constexpr char kCreateEvents[] =
    "CREATE TABLE events (sequence INTEGER PRIMARY KEY, term INTEGER NOT NULL,"
    " version INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL)";
constexpr char kCreateSnapshot[] =
    "CREATE TABLE snapshot (part INTEGER PRIMARY KEY,"
    " sequence INTEGER NOT NULL, version INTEGER NOT NULL,"
    " crc INTEGER NOT NULL, body BLOB NOT NULL)";

// Over a record's numbers and its bytes.
int64_t CrcOf(int64_t a, int64_t b, int64_t version, const std::string& body) {
  const int64_t numbers[] = {a, b, version, static_cast<int64_t>(body.size())};
  uLong crc =
      crc32(0, reinterpret_cast<const Bytef*>(numbers), sizeof(numbers));
  crc = crc32(crc, reinterpret_cast<const Bytef*>(body.data()),
              static_cast<uInt>(body.size()));
  return static_cast<int64_t>(crc);
}

absl::Status CheckVersion(int64_t version) {
  if (version == kJournalSchemaVersion) return absl::OkStatus();
  if (version > kJournalSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("was written by a newer version (schema ", version,
                     ", this program knows ", kJournalSchemaVersion,
                     "); start the newer program"));
  }
  return absl::DataLossError(absl::StrCat("has no schema version ", version));
}

// The row (number, number, version, crc, body) of either table.
absl::StatusOr<std::string> CheckedBody(const SqliteStatement& row,
                                        int64_t first, int64_t second) {
  SC_ASSIGN_OR_RETURN(const int64_t version, row.Integer(2));
  SC_ASSIGN_OR_RETURN(const int64_t crc, row.Integer(3));
  SC_ASSIGN_OR_RETURN(std::string body, row.Blob(4));
  if (crc != CrcOf(first, second, version, body)) {
    return absl::DataLossError("does not match its CRC");
  }
  SC_RETURN_IF_ERROR(CheckVersion(version));
  return body;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JournalFile>> JournalFile::Open(
    const SqliteDatabase::Options& options) {
  SC_ASSIGN_OR_RETURN(auto database, SqliteDatabase::Open(options));
  auto file =
      std::unique_ptr<JournalFile>(new JournalFile(std::move(database)));
  SC_ASSIGN_OR_RETURN(
      const int64_t tables,
      file->database_->QueryInteger("SELECT count(*) FROM sqlite_master"));
  if (tables == 0 && !options.look_only) {
    SC_RETURN_IF_ERROR(file->CreateTables());
  }
  SC_RETURN_IF_ERROR(file->CheckLayout());
  return file;
}

absl::Status JournalFile::CreateTables() {
  return InTransaction([this] {
    SC_RETURN_IF_ERROR(database_->Execute(kCreateEvents));
    SC_RETURN_IF_ERROR(database_->Execute(kCreateSnapshot));
    SC_RETURN_IF_ERROR(database_->Execute(
        absl::StrCat("PRAGMA application_id = ", kApplicationId).c_str()));
    return database_->Execute(
        absl::StrCat("PRAGMA user_version = ", kLayoutVersion).c_str());
  });
}

absl::Status JournalFile::CheckLayout() {
  SC_ASSIGN_OR_RETURN(const int64_t application,
                      database_->QueryInteger("PRAGMA application_id"));
  if (application != kApplicationId) {
    return absl::DataLossError(
        absl::StrCat(database_->path(), " is not a coordinator's journal"));
  }
  SC_ASSIGN_OR_RETURN(const int64_t layout,
                      database_->QueryInteger("PRAGMA user_version"));
  if (layout != kLayoutVersion) {
    return absl::DataLossError(absl::StrCat(database_->path(), " has layout ",
                                            layout, ", not ", kLayoutVersion));
  }
  return absl::OkStatus();
}

// ---- reading ----------------------------------------------------------------

absl::Status JournalFile::ReadSnapshot(JournalContents* contents) {
  SC_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      database_->Prepare("SELECT part, sequence, version, crc, body"
                         " FROM snapshot ORDER BY part"));
  std::vector<v1::SnapshotPart> parts;
  while (true) {
    SC_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) break;
    SC_ASSIGN_OR_RETURN(const int64_t part, rows.Integer(0));
    SC_ASSIGN_OR_RETURN(const int64_t sequence, rows.Integer(1));
    SC_ASSIGN_OR_RETURN(const std::string body,
                        CheckedBody(rows, part, sequence));
    if (part != static_cast<int64_t>(parts.size()) ||
        (part > 0 && sequence != contents->snapshot_sequence)) {
      return absl::DataLossError("has parts that do not belong together");
    }
    contents->snapshot_sequence = sequence;
    contents->snapshot_bytes += static_cast<int64_t>(body.size());
    parts.emplace_back();
    if (!parts.back().ParseFromString(body)) {
      return absl::DataLossError("cannot be parsed");
    }
  }
  if (parts.empty()) return absl::OkStatus();
  SC_ASSIGN_OR_RETURN(contents->state, ClusterState::FromSnapshot(parts));
  contents->sequence = contents->snapshot_sequence;
  return absl::OkStatus();
}

absl::Status JournalFile::ReadEvents(JournalContents* contents) {
  SC_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      database_->Prepare("SELECT sequence, term, version, crc, body"
                         " FROM events WHERE sequence > ? ORDER BY sequence"));
  rows.Bind(1, contents->snapshot_sequence);
  while (true) {
    SC_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return absl::OkStatus();
    SC_ASSIGN_OR_RETURN(const int64_t sequence, rows.Integer(0));
    if (sequence != contents->sequence + 1) {
      return absl::DataLossError("is missing");
    }
    SC_ASSIGN_OR_RETURN(const int64_t term, rows.Integer(1));
    SC_ASSIGN_OR_RETURN(const std::string body,
                        CheckedBody(rows, sequence, term));
    v1::JournalEvent proto;
    if (!proto.ParseFromString(body)) {
      return absl::DataLossError("cannot be parsed");
    }
    SC_ASSIGN_OR_RETURN(const Event event, FromProto(proto));
    if (const absl::Status status = contents->state.Apply(event);
        !status.ok()) {
      return absl::DataLossError(status.message());
    }
    contents->sequence = sequence;
    contents->event_bytes += static_cast<int64_t>(body.size());
  }
}

bool JournalFile::AnythingFrom(int64_t first) {
  // From both ends, for a damaged page may stop either way.
  for (const char* order : {"ASC", "DESC"}) {
    auto rows = database_->Prepare(
        absl::StrCat("SELECT sequence, term, version, crc, body FROM events"
                     " WHERE sequence >= ? ORDER BY sequence ",
                     order)
            .c_str());
    if (!rows.ok()) continue;
    rows->Bind(1, first);
    while (true) {
      const auto row = rows->Step();
      if (!row.ok() || !*row) break;
      const auto sequence = rows->Integer(0);
      const auto term = rows->Integer(1);
      if (sequence.ok() && term.ok() &&
          CheckedBody(*rows, *sequence, *term).ok()) {
        return true;
      }
    }
  }
  return false;
}

JournalContents JournalFile::Read(int64_t expected) {
  JournalContents contents;
  contents.damage = Annotate(ReadSnapshot(&contents),
                             absl::StrCat(database_->path(), ": the snapshot"));
  if (!contents.damage.ok()) return contents;
  contents.damage = ReadEvents(&contents);
  const int64_t next = contents.sequence + 1;
  if (contents.damage.ok() && contents.sequence < expected) {
    contents.damage = absl::DataLossError("is missing");
  }
  if (contents.damage.ok()) return contents;
  contents.last_lost = std::max(expected, next);
  contents.damage =
      Annotate(contents.damage, absl::StrCat(database_->path(), ": event ",
                                             next, " of ", contents.last_lost));
  if (!absl::IsDataLoss(contents.damage)) return contents;
  contents.damage_is_tail = contents.sequence > 0 && !AnythingFrom(next + 1);
  return contents;
}

// ---- writing ----------------------------------------------------------------

absl::Status JournalFile::InTransaction(
    const std::function<absl::Status()>& work) {
  if (log_is_doubtful_) {
    // What failed may stand in SQLite's log complete, and would come back after
    // a crash: start a new log.
    SC_RETURN_IF_ERROR(database_->Execute("PRAGMA wal_checkpoint(TRUNCATE)"));
    log_is_doubtful_ = false;
  }
  absl::Status status = database_->Execute("BEGIN IMMEDIATE");
  if (status.ok()) status = work();
  if (status.ok()) status = database_->Execute("COMMIT");
  if (status.ok()) return status;
  log_is_doubtful_ = true;
  // May have been rolled back already.
  database_->Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status JournalFile::InsertEvent(int64_t sequence, Term term,
                                      const Event& event, int64_t* bytes) {
  v1::JournalEvent proto;
  ToProto(event, &proto);
  const std::string body = proto.SerializeAsString();
  SC_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database_->Prepare("INSERT INTO events (sequence, term, version, crc,"
                         " body) VALUES (?, ?, ?, ?, ?)"));
  insert.Bind(1, sequence);
  insert.Bind(2, term.value());
  insert.Bind(3, kJournalSchemaVersion);
  insert.Bind(4, CrcOf(sequence, term.value(), kJournalSchemaVersion, body));
  insert.Bind(5, body);
  *bytes += static_cast<int64_t>(body.size());
  return insert.Step().status();
}

absl::Status JournalFile::Append(int64_t sequence, Term term,
                                 const std::vector<Event>& events,
                                 int64_t* bytes) {
  return InTransaction([&] {
    for (const Event& event : events) {
      SC_RETURN_IF_ERROR(InsertEvent(sequence++, term, event, bytes));
    }
    return absl::OkStatus();
  });
}

absl::Status JournalFile::InsertParts(int64_t sequence,
                                      const ClusterState& state,
                                      int64_t* bytes) {
  SC_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database_->Prepare("INSERT INTO snapshot (part, sequence, version, crc,"
                         " body) VALUES (?, ?, ?, ?, ?)"));
  int64_t part = 0;
  for (const v1::SnapshotPart& proto : state.ToSnapshot()) {
    const std::string body = proto.SerializeAsString();
    insert.Reset();
    insert.Bind(1, part);
    insert.Bind(2, sequence);
    insert.Bind(3, kJournalSchemaVersion);
    insert.Bind(4, CrcOf(part, sequence, kJournalSchemaVersion, body));
    insert.Bind(5, body);
    SC_RETURN_IF_ERROR(insert.Step().status());
    *bytes += static_cast<int64_t>(body.size());
    ++part;
  }
  return absl::OkStatus();
}

absl::Status JournalFile::WriteSnapshot(int64_t sequence,
                                        const ClusterState& state,
                                        int64_t* bytes) {
  *bytes = 0;
  return InTransaction([&] {
    SC_RETURN_IF_ERROR(database_->Execute("DELETE FROM snapshot"));
    SC_RETURN_IF_ERROR(InsertParts(sequence, state, bytes));
    return database_->Execute(
        absl::StrCat("DELETE FROM events WHERE sequence <= ", sequence)
            .c_str());
  });
}

absl::Status JournalFile::Checkpoint() {
  return database_->Execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

}  // namespace stagecoach::coordinator
