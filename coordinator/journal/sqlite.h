#ifndef STAGECOACH_COORDINATOR_JOURNAL_SQLITE_H_
#define STAGECOACH_COORDINATOR_JOURNAL_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::coordinator {

// A prepared statement. Must not outlive its database. Thread-compatible.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  SqliteStatement(sqlite3_stmt* statement, std::string path)
      : statement_(statement, &sqlite3_finalize), path_(std::move(path)) {}

  // Parameters are counted from 1.
  void Bind(int index, int64_t value);
  // Must stay until Reset.
  void Bind(int index, absl::string_view bytes);
  // True: there is a row. Errors as SqliteDatabase's.
  absl::StatusOr<bool> Step();
  // To be run again. Its error was told by Step.
  void Reset();

  // Of the current row, columns counted from 0. kDataLoss if the value is of
  // another type, as in a damaged file.
  absl::StatusOr<int64_t> Integer(int column) const;
  absl::StatusOr<std::string> Blob(int column) const;

 private:
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement_{
      nullptr, &sqlite3_finalize};
  std::string path_;
};

// One SQLite file, open for this process alone, in WAL mode with full
// synchronisation. Errors, with the path: kResourceExhausted the disk is full,
// kDataLoss the file is damaged, kUnavailable the disk fails, kInternal
// anything else. Thread-compatible. Blocks.
class SqliteDatabase {
 public:
  struct Options {
    std::string path;
    // Of a new file; a small one makes small files.
    int page_size = 4096;
    // Name of the VFS; empty: SQLite's own.
    std::string vfs;
    // Leaves the file and its log as they are, also when it is closed.
    bool look_only = false;
  };
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(
      const Options& options);

  const std::string& path() const { return path_; }
  absl::Status Execute(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(const char* sql);
  // The first column of the first row.
  absl::StatusOr<int64_t> QueryInteger(const char* sql);

 private:
  SqliteDatabase(sqlite3* handle, std::string path)
      : handle_(handle, &sqlite3_close), path_(std::move(path)) {}
  absl::Status Configure(const Options& options);

  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> handle_;
  const std::string path_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_SQLITE_H_
