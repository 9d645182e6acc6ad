#include "client/cluster_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/output/json.h"

namespace stagecoach::client {
namespace {

std::string RecordFile(const std::string& folder) {
  return absl::StrCat(folder, "/cluster.json");
}

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message(),
                     "; choose another with --directory"));
  }
  // Who can write here decides what `down` ends and whom jobs are sent to.
  if (made) chmod(folder.c_str(), S_IRWXU);
  return absl::OkStatus();
}

Json ToJson(const ClusterRecord& record) {
  Json json;
  json["endpoint"] = record.endpoint;
  json["ready"] = record.ready;
  for (const TlsFlag& flag : kTlsFlags) {
    const std::string& value = record.tls.*flag.member;
    if (!value.empty()) json["tls"][flag.flag] = value;
  }
  json["processes"] = Json::array();
  for (const RecordedProcess& process : record.processes) {
    Json entry;
    entry["name"] = process.name;
    entry["pid"] = process.identity.pid;
    entry["start_ticks"] = process.identity.start_ticks;
    entry["boot_id"] = process.identity.boot_id;
    json["processes"].push_back(std::move(entry));
  }
  return json;
}

// Throws if the document is another one.
ClusterRecord FromJson(const Json& json) {
  ClusterRecord record;
  record.endpoint = json.at("endpoint").get<std::string>();
  record.ready = json.at("ready").get<bool>();
  const Json tls = json.value("tls", Json::object());
  for (const TlsFlag& flag : kTlsFlags) {
    record.tls.*flag.member = tls.value(flag.flag, "");
  }
  for (const Json& entry : json.at("processes")) {
    RecordedProcess process;
    process.name = entry.at("name").get<std::string>();
    process.identity.pid = entry.at("pid").get<pid_t>();
    process.identity.start_ticks = entry.at("start_ticks").get<int64_t>();
    process.identity.boot_id = entry.at("boot_id").get<std::string>();
    record.processes.push_back(std::move(process));
  }
  return record;
}

// Whether the file that `fd` has locked still has its name: its last owner may
// have removed it meanwhile.
bool StillNamed(int fd, const std::string& path) {
  struct stat mine = {};
  struct stat named = {};
  return fstat(fd, &mine) == 0 && stat(path.c_str(), &named) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

}  // namespace

std::string ClusterFolder(const std::string& given) {
  if (!given.empty()) return given;
  std::string folder = FromEnvironment("STAGECOACH_DIRECTORY");
  if (!folder.empty()) return folder;
  folder = FromEnvironment("XDG_STATE_HOME");
  if (!folder.empty()) return folder + "/stagecoach";
  folder = FromEnvironment("HOME");
  if (!folder.empty()) return folder + "/.local/state/stagecoach";
  return absl::StrCat("/tmp/stagecoach-", getuid());
}

std::string ClusterLogFolder(const std::string& folder) {
  return folder + "/logs";
}

absl::StatusOr<ClusterRecord> ReadClusterRecord(const std::string& folder) {
  std::ifstream file(RecordFile(folder));
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("no local cluster is recorded in ", folder));
  }
  // The library reports by exceptions; none leaves this function.
  try {
    return FromJson(Json::parse(file));
  } catch (const Json::exception& error) {
    return absl::DataLossError(
        absl::StrCat(RecordFile(folder), " is damaged (", error.what(),
                     "); end its processes by hand, then remove the file"));
  }
}

absl::Status WriteClusterRecord(const std::string& folder,
                                const ClusterRecord& record) {
  SC_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = RecordFile(folder);
  const std::string next = path + ".new";
  {
    std::ofstream file(next, std::ios::trunc);
    file << Dump(ToJson(record));
    file.close();
    if (!file) {
      return absl::InternalError(
          absl::StrCat("cannot write ", next, "; is the disk full?"));
    }
  }
  if (std::rename(next.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot replace ", path));
  }
  return absl::OkStatus();
}

void RemoveClusterFiles(const std::string& folder,
                        const std::vector<std::string>& processes) {
  unlink(RecordFile(folder).c_str());
  unlink((RecordFile(folder) + ".new").c_str());
  const std::string logs = ClusterLogFolder(folder);
  for (const std::string& name : processes) {
    unlink(absl::StrCat(logs, "/", name, ".log").c_str());
  }
  rmdir(logs.c_str());
}

std::optional<ClusterRecord> LiveCluster(const std::string& folder) {
  absl::StatusOr<ClusterRecord> record = ReadClusterRecord(folder);
  if (!record.ok() || record->endpoint.empty() || record->processes.empty() ||
      !IsRunning(record->processes.front().identity)) {
    return std::nullopt;
  }
  return *std::move(record);
}

absl::StatusOr<ClusterLock> ClusterLock::Take(const std::string& folder) {
  SC_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = absl::StrCat(folder, "/lock");
  while (true) {
    const int fd =
        open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) {
      const absl::Status status = absl::ErrnoToStatus(errno, path);
      return absl::InvalidArgumentError(
          absl::StrCat("cannot open ", status.message(),
                       "; choose another folder with --directory"));
    }
    ClusterLock lock(fd, path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      lock.path_.clear();  // it is another's
      return absl::AlreadyExistsError(absl::StrCat(
          "another `up` or `down` is at work in ", folder, "; try again"));
    }
    if (StillNamed(fd, path)) return lock;
    lock.path_.clear();
  }
}

ClusterLock::~ClusterLock() {
  if (fd_ < 0) return;
  if (!path_.empty()) {
    unlink(path_.c_str());
    // Only if nothing else is in it.
    rmdir(std::filesystem::path(path_).parent_path().c_str());
  }
  close(fd_);
}

}  // namespace stagecoach::client
