#include "transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

TEST(SharedMemoryTest, BothMappingsSeeTheSameBytes) {
  const auto mine = SharedMemory::Create("test", 10000).value();
  UniqueFd fd(fcntl(mine->fd(), F_DUPFD_CLOEXEC, 0));
  const auto peers = SharedMemory::FromFd(std::move(fd)).value();
  EXPECT_EQ(peers->bytes(), 10000u);
  mine->data()[9999] = 'x';
  EXPECT_EQ(peers->data()[9999], 'x');
}

TEST(SharedMemoryTest, StartsAsZeroes) {
  const auto memory = SharedMemory::Create("test", 5000).value();
  EXPECT_EQ(std::string(memory->data(), 5000), std::string(5000, '\0'));
}

TEST(SharedMemoryTest, CannotBeResized) {
  const auto memory = SharedMemory::Create("test", 8192).value();
  EXPECT_NE(ftruncate(memory->fd(), 4096), 0);
  EXPECT_NE(ftruncate(memory->fd(), 16384), 0);
}

TEST(SharedMemoryTest, OutlivesItsDescriptor) {
  auto mine = SharedMemory::Create("test", 4096).value();
  UniqueFd fd(fcntl(mine->fd(), F_DUPFD_CLOEXEC, 0));
  const auto peers = SharedMemory::FromFd(std::move(fd)).value();
  mine->data()[0] = 'x';
  mine.reset();
  EXPECT_EQ(peers->data()[0], 'x');
}

// Refused before anything is reserved: the kernel would reserve until it has
// killed other processes of the host. Never lower this to what a host may have.
TEST(SharedMemoryTest, MoreThanTheHostHasIsRefusedBeforeItIsTaken) {
  const auto memory = SharedMemory::Create("a pool", size_t{1} << 55);
  EXPECT_TRUE(absl::IsResourceExhausted(memory.status())) << memory.status();
  EXPECT_THAT(std::string(memory.status().message()),
              ::testing::HasSubstr("the host has"));
}

TEST(SharedMemoryTest, RefusesEmptyUnsealedAndForeignDescriptors) {
  UniqueFd empty(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(SharedMemory::FromFd(std::move(empty)).ok());
  UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_FALSE(SharedMemory::FromFd(std::move(unsealed)).ok());
  EXPECT_FALSE(
      SharedMemory::FromFd(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)))
          .ok());
  EXPECT_FALSE(SharedMemory::FromFd(UniqueFd()).ok());
}

// A descriptor that lies about its size: mapped, it would take the host's
// memory page by page. Far more than any host has, so that a mistake here fails
// and does no harm.
TEST(SharedMemoryTest, RefusesMemoryThatItsMakerHasNotReserved) {
  UniqueFd sparse(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sparse.get(), off_t{1} << 50), 0);
  ASSERT_EQ(fallocate(sparse.get(), 0, 0, 1 << 16), 0);
  ASSERT_EQ(fcntl(sparse.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const auto memory = SharedMemory::FromFd(std::move(sparse));
  EXPECT_TRUE(absl::IsInvalidArgument(memory.status())) << memory.status();
  EXPECT_THAT(std::string(memory.status().message()),
              ::testing::HasSubstr("claims 1125899906842624 bytes and has"));
}

}  // namespace
}  // namespace stagecoach::transport
