// Opens the real libraries, where they are installed; needs no GPU.
#include "transport/nccl/libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/nccl/testing/emulator.h"
#include "transport/nccl/version.h"

namespace stagecoach::transport::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string HomeOfCuda() {
  const char* const home = std::getenv("CUDA_HOME");
  return home == nullptr ? "/usr/local/cuda" : home;
}

// The first that the dynamic linker can open; empty if none.
std::string FirstThatOpens(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return path;
  }
  return "";
}

TEST(LibrariesTest, TheRealOnesHaveEveryFunctionAndSayTheirVersion) {
  const std::string home = HomeOfCuda();
  const std::string nccl = FirstThatOpens(
      {absl::StrCat(home, "/lib64/libnccl.so.2"), "libnccl.so.2"});
  const std::string cuda = FirstThatOpens(
      {absl::StrCat(home, "/lib64/libcudart.so.13"), "libcudart.so.13"});
  if (nccl.empty()) GTEST_SKIP() << "no libnccl.so.2 here: " << dlerror();
  if (cuda.empty()) GTEST_SKIP() << "no libcudart.so.13 here: " << dlerror();
  const auto libraries = Libraries::Open(nccl, cuda);
  ASSERT_TRUE(libraries.ok()) << libraries.status();
  EXPECT_EQ((*libraries)->nccl_version / 10000, NCCL_MAJOR);
  int runtime = 0;
  EXPECT_EQ((*libraries)->cuda.cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_EQ(runtime / 1000, CUDART_VERSION / 1000);
  std::printf("%s is NCCL %s\n", nccl.c_str(),
              VersionText((*libraries)->nccl_version).c_str());
}

TEST(LibrariesTest, SaysWhichLibraryIsNotThereAndWhichFlagNamesIt) {
  const std::string emulator = testing::EmulatorPath();
  const auto no_nccl = Libraries::Open("/nowhere/libnccl.so.2", emulator);
  EXPECT_TRUE(absl::IsFailedPrecondition(no_nccl.status()));
  EXPECT_THAT(
      std::string(no_nccl.status().message()),
      AllOf(HasSubstr("/nowhere/libnccl.so.2"), HasSubstr("--nccl-library")));
  const auto no_cuda = Libraries::Open(emulator, "/nowhere/libcudart.so.13");
  EXPECT_THAT(std::string(no_cuda.status().message()),
              HasSubstr("--cuda-runtime-library"));
}

TEST(LibrariesTest, SaysWhichFunctionALibraryLacks) {
  const auto swapped = Libraries::Open("libm.so.6", testing::EmulatorPath());
  EXPECT_TRUE(absl::IsFailedPrecondition(swapped.status()));
  EXPECT_THAT(std::string(swapped.status().message()),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("ncclGetVersion")));
}

TEST(LibrariesTest, RefusesABadVersion) {
  testing::Emulator emulator;
  emulator.Set("version=21900");
  const std::string path = testing::EmulatorPath();
  EXPECT_THAT(std::string(Libraries::Open(path, path).status().message()),
              AllOf(HasSubstr("NCCL 2.19.0"), HasSubstr("too old")));
}

}  // namespace
}  // namespace stagecoach::transport::nccl
