#include "client/machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/bytes.h"

namespace stagecoach::client {
namespace {

constexpr size_t kMemfdBytes = 1 << 20;
// A worker without a model needs about this much (libtorch).
constexpr int64_t kWorkerBytes = int64_t{400} << 20;
// Sockets, arenas and doorbells of a worker with many edges.
constexpr int64_t kOpenFiles = 1024;

absl::Status Errno(const char* what) {
  return absl::ErrnoToStatus(errno, what);
}

absl::Status TryMemfd() {
  const int fd =
      memfd_create("stagecoach-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Errno("memfd_create");
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  if (ftruncate(fd, kMemfdBytes) != 0) return Errno("ftruncate");
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) return Errno("F_ADD_SEALS");
  void* const memory =
      mmap(nullptr, kMemfdBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Errno("mmap");
  munmap(memory, kMemfdBytes);
  return absl::OkStatus();
}

absl::Status TryAbstractSocket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Errno("socket");
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // The zero in front makes the name abstract.
  const std::string name = absl::StrCat("stagecoach-doctor-", getpid());
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return Errno("bind");
  }
  if (listen(fd, 1) != 0) return Errno("listen");
  return absl::OkStatus();
}

absl::Status TryLoopback() {
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto close_both = absl::MakeCleanup([server, client] {
    if (server >= 0) close(server);
    if (client >= 0) close(client);
  });
  if (server < 0 || client < 0) return Errno("socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(server, raw, size) != 0) return Errno("bind 127.0.0.1");
  if (listen(server, 1) != 0) return Errno("listen");
  if (getsockname(server, raw, &size) != 0) return Errno("getsockname");
  if (connect(client, raw, size) != 0) return Errno("connect to 127.0.0.1");
  return absl::OkStatus();
}

int64_t SharedMemoryBytes() {
  struct statvfs info = {};
  if (statvfs("/dev/shm", &info) != 0) return -1;
  return static_cast<int64_t>(info.f_blocks) *
         static_cast<int64_t>(info.f_frsize);
}

// The nearest folder on the way that exists.
absl::Status TryFolder(const std::string& folder) {
  std::filesystem::path path(folder);
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_parent_path() &&
         path != path.parent_path()) {
    path = path.parent_path();
  }
  if (access(path.c_str(), W_OK) == 0) return absl::OkStatus();
  return Errno(path.c_str());
}

int64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kibibytes << 10;
  }
  return -1;
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

int64_t SteadyNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// ---- verdicts ---------------------------------------------------------------

Finding Ok(std::string check, std::string detail) {
  return {std::move(check), Verdict::kOk, std::move(detail), ""};
}

Finding OkOrFail(const char* check, const absl::Status& status,
                 const char* detail, const char* remedy) {
  if (status.ok()) return Ok(check, detail);
  return {check, Verdict::kFail, std::string(status.message()), remedy};
}

Finding JudgeShm(int64_t bytes) {
  if (bytes < 0) {
    return {"/dev/shm", Verdict::kWarn, "is not there",
            "the data path does not need it (it uses memfd), other libraries "
            "may; in a container mount a tmpfs there"};
  }
  if (bytes < (int64_t{64} << 20)) {
    return {"/dev/shm", Verdict::kWarn, FormatByteSize(bytes),
            "the data path does not need it (it uses memfd), other libraries "
            "may; in a container use --shm-size"};
  }
  return Ok("/dev/shm", FormatByteSize(bytes));
}

std::string Workers(const Load& load) {
  return absl::StrCat(load.workers, load.workers == 1 ? " worker" : " workers");
}

Finding JudgeMemory(int64_t available, const Load& load) {
  const int64_t wanted = kWorkerBytes * load.workers;
  if (available < 0) {
    return {"memory", Verdict::kWarn, "/proc/meminfo does not say",
            "mount /proc"};
  }
  const std::string detail =
      absl::StrCat(FormatByteSize(available), " available for ", Workers(load));
  if (available >= 2 * wanted) return Ok("memory", detail);
  return {
      "memory", available < wanted ? Verdict::kFail : Verdict::kWarn, detail,
      absl::StrCat("an empty worker takes about ", FormatByteSize(kWorkerBytes),
                   "; use fewer workers, or end other programs")};
}

Finding JudgeCores(int cores, const Load& load) {
  const int wanted = load.workers * load.threads;
  const std::string detail =
      absl::StrCat(cores, " cores for ", Workers(load), " of ", load.threads,
                   load.threads == 1 ? " thread" : " threads");
  if (wanted <= cores) return Ok("cores", detail);
  return {"cores", Verdict::kWarn, detail,
          "workers will take turns; set OMP_WAIT_POLICY=passive, use fewer "
          "workers, or training.threads = 1"};
}

// A path of a socket has to fit into 108 bytes with its zero.
Finding JudgePath(const std::string& folder) {
  constexpr size_t kLimit = sizeof(sockaddr_un::sun_path) - 1;
  const size_t size = folder.size() + std::strlen("/coordinator.sock");
  const std::string detail = absl::StrCat(
      "a socket in ", folder, " would take ", size, " of ", kLimit, " bytes");
  if (size <= kLimit) return Ok("socket paths", detail);
  return {"socket paths", Verdict::kWarn, detail,
          "use a shorter folder for --listen unix:PATH; other addresses are "
          "not concerned"};
}

Finding JudgeClock(const MachineFacts& facts) {
  const std::string detail = absl::FormatTime(
      "%Y-%m-%d %H:%M:%S UTC", facts.wall_clock, absl::UTCTimeZone());
  if (!facts.steady_clock_moves) {
    return {"clock", Verdict::kFail, "the steady clock stands still",
            "restart the machine; heartbeats would never be missed"};
  }
  if (facts.wall_clock <
      absl::FromCivil(absl::CivilYear(2025), absl::UTCTimeZone())) {
    return {"clock", Verdict::kFail, detail,
            "set the clock: a coordinator's lives are told apart by it"};
  }
  return Ok("clock", detail);
}

Finding JudgeFiles(int64_t limit) {
  const std::string detail = absl::StrCat(limit, " open files per process");
  if (limit >= kOpenFiles) return Ok("open files", detail);
  return {"open files", Verdict::kWarn, detail,
          absl::StrCat("raise it: ulimit -n ", kOpenFiles)};
}

}  // namespace

MachineFacts LookAtMachine(const std::string& cluster_folder) {
  MachineFacts facts;
  facts.memfd = TryMemfd();
  facts.shared_memory_bytes = SharedMemoryBytes();
  facts.abstract_socket = TryAbstractSocket();
  facts.loopback = TryLoopback();
  facts.cluster_folder = cluster_folder;
  facts.cluster_folder_writable = TryFolder(cluster_folder);
  facts.available_memory_bytes = AvailableMemory();
  facts.cores = UsableCores();
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.open_files =
        static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, rlim_t{1} << 40));
  }
  facts.wall_clock = absl::Now();
  const int64_t before = SteadyNanoseconds();
  absl::SleepFor(absl::Milliseconds(1));
  facts.steady_clock_moves = SteadyNanoseconds() > before;
  return facts;
}

std::vector<Finding> JudgeMachine(const MachineFacts& facts, const Load& load) {
  return {
      OkOrFail("shared memory", facts.memfd, "memfd can be made and sealed",
               "the shm data path needs it: allow memfd_create, or use "
               "pipeline.transport = \"tcp\""),
      JudgeShm(facts.shared_memory_bytes),
      OkOrFail("unix sockets", facts.abstract_socket,
               "abstract names can be listened on",
               "the shm data path needs them: allow AF_UNIX sockets"),
      JudgePath(facts.cluster_folder),
      OkOrFail("loopback", facts.loopback, "127.0.0.1 can be listened on",
               "bring the interface up: ip link set lo up"),
      OkOrFail("state folder", facts.cluster_folder_writable,
               facts.cluster_folder.c_str(),
               "`up` writes there: choose another with STAGECOACH_DIRECTORY"),
      JudgeMemory(facts.available_memory_bytes, load),
      JudgeCores(facts.cores, load),
      JudgeFiles(facts.open_files),
      JudgeClock(facts),
  };
}

}  // namespace stagecoach::client
