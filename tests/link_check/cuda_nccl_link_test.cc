// Compiles and links against the real CUDA runtime and NCCL, where they are
// installed. The product opens both at run time by name, so nothing else would
// notice a header that does not fit the library, or a symbol that is not there.
// Everything called here works without a GPU.

#include "cuda_found.h"
#include "gtest/gtest.h"

#if STAGECOACH_LINKS_CUDART
#include <cuda_runtime_api.h>
#endif
#if STAGECOACH_LINKS_NCCL
#include <nccl.h>
#endif

namespace {

#if STAGECOACH_LINKS_CUDART || STAGECOACH_LINKS_NCCL

using AnyFunction = void (*)();

// Volatile: the address has to be in the program, so the linker resolves it.
template <typename... Functions>
void ExpectLinked(Functions*... functions) {
  for (AnyFunction volatile function :
       {reinterpret_cast<AnyFunction>(functions)...}) {
    EXPECT_NE(function, nullptr);
  }
}

#endif

TEST(CudaRuntimeLinkTest, LibraryAndHeaderAreOfOneMajorVersion) {
#if STAGECOACH_LINKS_CUDART
  int version = 0;
  ASSERT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version / 1000, CUDART_VERSION / 1000);
#else
  GTEST_SKIP() << STAGECOACH_CUDART_MISSING;
#endif
}

TEST(CudaRuntimeLinkTest, HasWhatADataPathCalls) {
#if STAGECOACH_LINKS_CUDART
  ExpectLinked(&cudaSetDevice, &cudaStreamCreateWithFlags, &cudaStreamWaitEvent,
               &cudaStreamDestroy, &cudaEventCreateWithFlags, &cudaEventRecord,
               &cudaEventQuery, &cudaEventDestroy);
#else
  GTEST_SKIP() << STAGECOACH_CUDART_MISSING;
#endif
}

TEST(NcclLinkTest, LibraryAndHeaderAreOfOneMajorVersion) {
#if STAGECOACH_LINKS_NCCL
  int version = 0;
  ASSERT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version / 10000, NCCL_VERSION_CODE / 10000);
#else
  GTEST_SKIP() << STAGECOACH_NCCL_MISSING;
#endif
}

TEST(NcclLinkTest, HasWhatADataPathCalls) {
#if STAGECOACH_LINKS_NCCL
  ExpectLinked(&ncclGetUniqueId, &ncclCommInitRankConfig,
               &ncclCommGetAsyncError, &ncclCommAbort, &ncclCommDestroy,
               &ncclGroupStart, &ncclGroupEnd, &ncclSend, &ncclRecv,
               &ncclGetLastError);
#else
  GTEST_SKIP() << STAGECOACH_NCCL_MISSING;
#endif
}

}  // namespace
