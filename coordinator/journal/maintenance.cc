// `stagecoach-coordinator check` and `repair`.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/journal/sqlite_journal.h"

namespace stagecoach::coordinator {
namespace {

// What of a data directory can be read.
struct Survey {
  JournalMark mark;
  absl::Status mark_damage;
  JournalContents contents;
};

absl::StatusOr<Survey> Look(const DataDirectory& directory) {
  Survey survey;
  const auto mark = directory.ReadMark();
  const int64_t newest = directory.NewestGeneration();
  if (mark.ok() && mark->has_value()) {
    survey.mark = **mark;
  } else if (newest == 0) {
    return absl::NotFoundError(
        absl::StrCat("there is no journal in ", directory.path()));
  } else {
    survey.mark.generation = newest;
    survey.mark_damage = mark.ok() ? absl::DataLossError(absl::StrCat(
                                         directory.path(), "/mark is missing"))
                                   : mark.status();
  }
  SqliteDatabase::Options database;
  database.path = directory.JournalPath(survey.mark.generation);
  database.look_only = true;
  auto file = JournalFile::Open(database);
  if (file.ok()) {
    survey.contents = (*file)->Read(survey.mark.sequence);
  } else {
    survey.contents.damage = file.status();
  }
  return survey;
}

std::string Summary(const JournalContents& contents) {
  return absl::StrCat(contents.sequence, " events, ",
                      contents.state.job_order().size(), " jobs, term ",
                      contents.state.last_term().value());
}

absl::Status CannotRepair(const absl::Status& damage) {
  return absl::DataLossError(absl::StrCat(
      damage.message(),
      "; later events are built on it, so it cannot be repaired: restore the "
      "data directory from a backup, or start with an empty one"));
}

// The sound part in a file of the next generation.
absl::Status Rewrite(const JournalContents& contents, DataDirectory* directory,
                     JournalMark mark) {
  const std::string fresh = absl::StrCat(directory->path(), "/repair.db");
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-journal"}) {
    std::filesystem::remove(fresh + suffix, ignored);
  }
  SqliteDatabase::Options database;
  database.path = fresh;
  {
    SC_ASSIGN_OR_RETURN(auto file, JournalFile::Open(database));
    int64_t bytes = 0;
    SC_RETURN_IF_ERROR(
        file->WriteSnapshot(contents.sequence, contents.state, &bytes));
    SC_RETURN_IF_ERROR(file->Checkpoint());
  }
  mark.generation =
      std::max(mark.generation, directory->NewestGeneration()) + 1;
  mark.sequence = contents.sequence;
  const std::string path = directory->JournalPath(mark.generation);
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  SC_RETURN_IF_ERROR(directory->Sync());
  return directory->ReplaceMark(mark);
}

}  // namespace

absl::StatusOr<std::string> CheckDataDirectory(const std::string& path) {
  SC_ASSIGN_OR_RETURN(const auto directory, DataDirectory::Open(path, false));
  SC_ASSIGN_OR_RETURN(const Survey survey, Look(*directory));
  const JournalContents& contents = survey.contents;
  if (contents.damage.ok() && survey.mark_damage.ok()) {
    return absl::StrCat(path, " is sound: ", Summary(contents));
  }
  if (contents.damage.ok()) {
    return absl::DataLossError(
        absl::StrCat(survey.mark_damage.message(), ", the journal itself has ",
                     Summary(contents), "; `stagecoach-coordinator repair ",
                     path, "` makes a new mark"));
  }
  if (!absl::IsDataLoss(contents.damage)) return contents.damage;
  if (!contents.damage_is_tail) return CannotRepair(contents.damage);
  return absl::DataLossError(absl::StrCat(
      contents.damage.message(), "; nothing after it can be read. `",
      "stagecoach-coordinator repair ", path, "` gives up events ",
      contents.sequence + 1, " to ", contents.last_lost, " and keeps ",
      Summary(contents)));
}

absl::StatusOr<std::string> RepairDataDirectory(const std::string& path) {
  SC_ASSIGN_OR_RETURN(const auto directory, DataDirectory::Open(path, false));
  SC_ASSIGN_OR_RETURN(Survey survey, Look(*directory));
  const JournalContents& contents = survey.contents;
  if (contents.damage.ok()) {
    if (survey.mark_damage.ok()) {
      return absl::StrCat(path,
                          " is sound, nothing to repair: ", Summary(contents));
    }
    survey.mark.sequence = contents.sequence;
    SC_RETURN_IF_ERROR(directory->ReplaceMark(survey.mark));
    return absl::StrCat("made a new mark; ", path, " has ", Summary(contents));
  }
  if (!absl::IsDataLoss(contents.damage)) return contents.damage;
  if (!contents.damage_is_tail) return CannotRepair(contents.damage);
  const std::string damaged = directory->JournalPath(survey.mark.generation);
  SC_RETURN_IF_ERROR(Rewrite(contents, directory.get(), survey.mark));
  return absl::StrCat("gave up events ", contents.sequence + 1, " to ",
                      contents.last_lost, " (", contents.damage.message(),
                      "); kept ", Summary(contents),
                      "; the damaged file stays as ", damaged);
}

}  // namespace stagecoach::coordinator
