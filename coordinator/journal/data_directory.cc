#include "coordinator/journal/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/status.h"

namespace stagecoach::coordinator {
namespace {

constexpr char kMagic[] = "SCMARK01";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;

absl::Status ErrnoError(int error, const std::string& what) {
  return absl::ErrnoToStatus(error, what);
}

template <typename T>
void AppendBytes(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Encode(const JournalMark& mark) {
  std::string bytes(kMagic, kMagicBytes);
  AppendBytes(mark.generation, &bytes);
  AppendBytes(mark.sequence, &bytes);
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()),
            static_cast<uInt>(bytes.size())));
  AppendBytes(crc, &bytes);
  return bytes;
}

absl::Status WriteAll(int fd, const std::string& bytes,
                      const std::string& path) {
  const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), 0);
  if (written == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return ErrnoError(written < 0 ? errno : ENOSPC, path);
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(
    const std::string& path, bool create) {
  if (create && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, absl::StrCat("data directory ", path));
  }
  const std::string lock_path = path + "/lock";
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoError(errno, absl::StrCat("data directory ", path));
  auto directory = std::unique_ptr<DataDirectory>(new DataDirectory(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoError(errno, lock_path);
    auto holder = ReadFile(lock_path, 1024);
    std::string name = holder.ok() ? *holder : "";
    absl::StripAsciiWhitespace(&name);
    return absl::AlreadyExistsError(
        absl::StrCat("data directory ", path, " is in use by ",
                     name.empty() ? "another coordinator" : name,
                     "; stop that one, or give another --data-directory"));
  }
  // For the message above; the lock holds without it.
  const std::string holder =
      absl::StrCat("process ", getpid(), " on ", HostName(), "\n");
  if (ftruncate(fd, 0) == 0) {
    WriteAll(fd, holder, lock_path).IgnoreError();
  }
  return directory;
}

DataDirectory::~DataDirectory() {
  if (mark_ >= 0) close(mark_);
  close(lock_);
}

std::string DataDirectory::JournalPath(int64_t generation) const {
  return absl::StrCat(path_, "/journal-", generation, ".db");
}

int64_t DataDirectory::NewestGeneration() const {
  int64_t newest = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    int64_t generation = 0;
    if (absl::ConsumePrefix(&number, "journal-") &&
        absl::ConsumeSuffix(&number, ".db") &&
        absl::SimpleAtoi(number, &generation)) {
      newest = std::max(newest, generation);
    }
  }
  return newest;
}

absl::StatusOr<std::optional<JournalMark>> DataDirectory::ReadMark() const {
  const std::string path = path_ + "/mark";
  auto bytes = ReadFile(path, 1024);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  SC_RETURN_IF_ERROR(bytes.status());
  JournalMark mark;
  const std::string expected = Encode(mark);
  if (bytes->size() == expected.size()) {
    std::memcpy(&mark.generation, bytes->data() + kMagicBytes,
                sizeof(mark.generation));
    std::memcpy(&mark.sequence,
                bytes->data() + kMagicBytes + sizeof(mark.generation),
                sizeof(mark.sequence));
    if (Encode(mark) == *bytes) return mark;
  }
  return absl::DataLossError(absl::StrCat(path, " is damaged"));
}

absl::Status DataDirectory::ReplaceMark(const JournalMark& mark) {
  const std::string path = path_ + "/mark";
  const std::string fresh = path + ".new";
  SC_FAIL_AT("journal.mark");
  const int fd =
      open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoError(errno, fresh);
  auto closer = absl::MakeCleanup([fd] { close(fd); });
  SC_RETURN_IF_ERROR(WriteAll(fd, Encode(mark), fresh));
  if (fsync(fd) != 0) return ErrnoError(errno, fresh);
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    return ErrnoError(errno, path);
  }
  SC_RETURN_IF_ERROR(Sync());
  std::move(closer).Cancel();
  if (mark_ >= 0) close(mark_);
  mark_ = fd;
  return absl::OkStatus();
}

absl::Status DataDirectory::UpdateMark(const JournalMark& mark) {
  const std::string path = path_ + "/mark";
  if (mark_ < 0) {
    mark_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (mark_ < 0) return ErrnoError(errno, path);
  }
  SC_FAIL_AT("journal.mark");
  return WriteAll(mark_, Encode(mark), path);
}

absl::Status DataDirectory::Sync() const {
  const int fd = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, path_);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  if (fsync(fd) != 0) return ErrnoError(errno, path_);
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator
