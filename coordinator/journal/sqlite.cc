#include "coordinator/journal/sqlite.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::coordinator {
namespace {

absl::Status ErrorOf(sqlite3* handle, const std::string& path) {
  const int code = sqlite3_errcode(handle);
  std::string message = absl::StrCat(path, ": ", sqlite3_errmsg(handle));
  if (const int error = sqlite3_system_errno(handle);
      error != 0 && (code == SQLITE_IOERR || code == SQLITE_CANTOPEN)) {
    absl::StrAppend(&message, " (", std::strerror(error), ")");
  }
  switch (code) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    case SQLITE_IOERR:
      // A file that is shorter than it says it is.
      if (sqlite3_extended_errcode(handle) == SQLITE_IOERR_SHORT_READ) {
        return absl::DataLossError(message);
      }
      return absl::UnavailableError(message);
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

// SQLite deletes the log of a file without a page, and counts a single byte as
// none: what is in the log would be lost by looking at it.
absl::Status CheckHasPages(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || bytes > 1) return absl::OkStatus();
  const auto log = std::filesystem::file_size(path + "-wal", error);
  if (error || log == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": the file is empty, but its log beside it is not"));
}

}  // namespace

void SqliteStatement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
}

void SqliteStatement::Bind(int index, absl::string_view bytes) {
  sqlite3_bind_blob64(statement_.get(), index, bytes.data(), bytes.size(),
                      SQLITE_STATIC);
}

absl::StatusOr<bool> SqliteStatement::Step() {
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return ErrorOf(sqlite3_db_handle(statement_.get()), path_);
  }
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

absl::StatusOr<int64_t> SqliteStatement::Integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) {
    return absl::DataLossError(
        absl::StrCat(path_, ": a number is of another type"));
  }
  return sqlite3_column_int64(statement_.get(), column);
}

absl::StatusOr<std::string> SqliteStatement::Blob(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_BLOB) {
    return absl::DataLossError(
        absl::StrCat(path_, ": a record is of another type"));
  }
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr) return std::string();
  return std::string(static_cast<const char*>(data),
                     static_cast<size_t>(bytes));
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(
    const Options& options) {
  SC_RETURN_IF_ERROR(CheckHasPages(options.path));
  sqlite3* handle = nullptr;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  if (!options.look_only) flags |= SQLITE_OPEN_CREATE;
  const int code =
      sqlite3_open_v2(options.path.c_str(), &handle, flags,
                      options.vfs.empty() ? nullptr : options.vfs.c_str());
  if (handle == nullptr) return absl::InternalError("no memory for SQLite");
  auto database =
      std::unique_ptr<SqliteDatabase>(new SqliteDatabase(handle, options.path));
  if (code != SQLITE_OK) return ErrorOf(handle, options.path);
  SC_RETURN_IF_ERROR(database->Configure(options));
  return database;
}

absl::Status SqliteDatabase::Configure(const Options& options) {
  sqlite3_extended_result_codes(handle_.get(), 0);
  if (options.look_only) {
    sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                      nullptr);
  }
  // One process, so no shared memory beside the file.
  SC_RETURN_IF_ERROR(Execute("PRAGMA locking_mode = EXCLUSIVE"));
  SC_RETURN_IF_ERROR(Execute("PRAGMA trusted_schema = OFF"));
  SC_RETURN_IF_ERROR(Execute("PRAGMA cell_size_check = ON"));
  if (options.look_only) return absl::OkStatus();
  SC_RETURN_IF_ERROR(
      Execute(absl::StrCat("PRAGMA page_size = ", options.page_size).c_str()));
  SC_RETURN_IF_ERROR(Execute("PRAGMA journal_mode = WAL"));
  return Execute("PRAGMA synchronous = FULL");
}

absl::Status SqliteDatabase::Execute(const char* sql) {
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) ==
      SQLITE_OK) {
    return absl::OkStatus();
  }
  return ErrorOf(handle_.get(), path_);
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), sql, -1, &statement, nullptr) !=
      SQLITE_OK) {
    return ErrorOf(handle_.get(), path_);
  }
  return SqliteStatement(statement, path_);
}

absl::StatusOr<int64_t> SqliteDatabase::QueryInteger(const char* sql) {
  SC_ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  SC_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::DataLossError(absl::StrCat(path_, ": no row"));
  return statement.Integer(0);
}

}  // namespace stagecoach::coordinator
