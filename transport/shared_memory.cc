#include "transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/huge_pages.h"

namespace stagecoach::transport {
namespace {

absl::Status OutOfMemory(const char* name, size_t bytes, const char* call) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot get ", bytes, " bytes of shared memory for ", name, ": ", call,
      ": ", strerror(errno), "; use fewer or smaller slots"));
}

// What the host can still give, 0 if it does not say.
uint64_t AvailableBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kibibytes = 0;
  std::string rest;
  while (meminfo >> name >> kibibytes && std::getline(meminfo, rest)) {
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

// The kernel itself sets no limit: it would go on reserving pages until it has
// killed other processes to find them. So this must be asked first.
absl::Status CheckAvailable(const char* name, size_t bytes) {
  const uint64_t available = AvailableBytes();
  if (available == 0 || bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot get ", bytes, " bytes of shared memory for ", name,
      ": the host has ", available, " left; use fewer or smaller slots"));
}

// Reserving now turns a lack of memory into an error here instead of a SIGBUS
// in some later copy.
bool Reserve(int fd, size_t bytes) {
  if (fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0) return true;
  return errno == EOPNOTSUPP || errno == ENOSYS;
}

// Linux 5.14; not in this C library's header.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// A mapping whose pages are there, huge ones as far as the kernel finds some.
// MAP_FAILED if there can be no mapping.
void* MapAdvised(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return data;
  // Neither failure matters: pages are then of another size, or come later.
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  (void)madvise(data, bytes, MADV_POPULATE_WRITE);
  return data;
}

// Has the kernel fill the memory with huge pages before Reserve() would do it
// with ordinary ones.
void FillAdvised(int fd, size_t bytes) {
  void* const data = MapAdvised(fd, bytes);
  if (data != MAP_FAILED) munmap(data, bytes);
}

constexpr char kKernelFolder[] = "/sys/kernel/mm";
constexpr int kHugeShift = 26;  // MFD_HUGE_SHIFT

unsigned MemfdFlags(const PagePlan& plan, const HugePageOffer& offer) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (plan.choice == PageChoice::kReserved) {
    const auto shift = static_cast<unsigned>(__builtin_ctzll(offer.page_bytes));
    flags |= MFD_HUGETLB | shift << kHugeShift;
  }
  return flags;
}

// Sealed, and all of it reserved.
absl::StatusOr<UniqueFd> NewMemory(const char* name, const PagePlan& plan,
                                   const HugePageOffer& offer) {
  const size_t bytes = plan.bytes;
  UniqueFd fd(memfd_create(name, MemfdFlags(plan, offer)));
  if (!fd.valid()) return OutOfMemory(name, bytes, "memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return OutOfMemory(name, bytes, "ftruncate");
  }
  if (plan.choice == PageChoice::kAdvised) FillAdvised(fd.get(), bytes);
  if (!Reserve(fd.get(), bytes)) return OutOfMemory(name, bytes, "fallocate");
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
      0) {
    return absl::InternalError(
        absl::StrCat("cannot seal shared memory: ", strerror(errno)));
  }
  return fd;
}

// Of stat's unit.
constexpr uint64_t kBlockBytes = 512;

}  // namespace

absl::StatusOr<size_t> SharedMemory::BytesBehind(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError(
        "the peer's descriptor is not shared memory sealed against shrinking");
  }
  struct stat file;
  if (fstat(fd, &file) != 0 || file.st_size <= 0) {
    return absl::InvalidArgumentError("the peer's shared memory is empty");
  }
  const auto bytes = static_cast<size_t>(file.st_size);
  const uint64_t reserved = static_cast<uint64_t>(file.st_blocks) * kBlockBytes;
  if (reserved < bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer's shared memory claims ", bytes,
                     " bytes and has ", reserved));
  }
  return bytes;
}

void SharedMemory::ReadFirst(int fd, void* out, size_t bytes) {
  std::memset(out, 0, bytes);
  (void)!pread(fd, out, bytes, 0);
}

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Create(
    const char* name, size_t bytes) {
  const HugePageOffer offer = ReadHugePageOffer(kKernelFolder);
  PagePlan plan = PlanPages(bytes, offer);
  absl::StatusOr<UniqueFd> fd = absl::UnavailableError("");
  if (plan.choice == PageChoice::kReserved) {
    fd = NewMemory(name, plan, offer);
    if (!fd.ok()) {
      // Somebody was quicker, or a control group forbids it.
      plan = {PageChoice::kOrdinary, bytes,
              absl::StrCat("ordinary pages: ", fd.status().message())};
    }
  }
  if (plan.choice != PageChoice::kReserved) {
    SC_RETURN_IF_ERROR(CheckAvailable(name, bytes));
    fd = NewMemory(name, plan, offer);
  }
  SC_RETURN_IF_ERROR(fd.status());
  // A doorbell is no news.
  if (bytes >= offer.page_bytes) {
    LogInfo(absl::StrCat(name, ": ", plan.bytes, " bytes in ", plan.why));
  }
  return Map(*std::move(fd), plan.bytes);
}

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::FromFd(
    UniqueFd fd) {
  SC_ASSIGN_OR_RETURN(const size_t bytes, BytesBehind(fd.get()));
  return Map(std::move(fd), bytes);
}

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Map(UniqueFd fd,
                                                                size_t bytes) {
  const PagePlan plan = PlanPages(bytes, ReadHugePageOffer(kKernelFolder));
  // Populated: no page fault in a steady step.
  void* data = plan.choice == PageChoice::kAdvised
                   ? MapAdvised(fd.get(), bytes)
                   : mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (data == MAP_FAILED) return OutOfMemory("a mapping", bytes, "mmap");
  return std::shared_ptr<SharedMemory>(
      new SharedMemory(std::move(fd), static_cast<char*>(data), bytes));
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void SharedMemory::Leak() {
  data_ = nullptr;
  fd_.Release();
}

}  // namespace stagecoach::transport
