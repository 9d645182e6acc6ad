#include "stage_worker/engine/torch/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "stage_worker/engine/torch/torch_engine.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;

void ExpectSays(const absl::Status& status, const std::string& words) {
  EXPECT_NE(status.message().find(words), std::string::npos)
      << status << "\nlacks: " << words;
}

TEST(DeviceTest, KnowsCpuAndCuda) {
  EXPECT_TRUE(ParseDevice("cpu")->is_cpu());
  EXPECT_EQ(ParseDevice("cuda")->str(), "cuda:0");
  EXPECT_EQ(ParseDevice("cuda:3")->str(), "cuda:3");
}

TEST(DeviceTest, RefusesOtherNames) {
  for (const char* name : {"", "gpu", "cpu:1", "cuda:", "cuda:-1", "cuda:x",
                           "cuda1", "cuda:1000"}) {
    const auto device = ParseDevice(name);
    EXPECT_EQ(device.status().code(), StatusCode::kInvalidArgument) << name;
    ExpectSays(device.status(), "try \"cpu\" or \"cuda:0\"");
  }
}

// The three below in one process, in order: torch remembers its first answer
// about accelerators, and a failed load must not be the end of CPU work.
TEST(DeviceTest, AMissingLibraryIsNamedWithTheLoadersWords) {
  TorchOptions options;
  options.device = "cuda:0";
  options.cuda_library = "/nowhere/libtorch_cuda.so";
  const absl::Status status = InitTorch(options);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  ExpectSays(status, "device cuda:0: cannot load /nowhere/libtorch_cuda.so");
  ExpectSays(status, "No such file or directory");
  ExpectSays(status, "try device cpu");
}

// Any library that loads but brings no driver with it.
TEST(DeviceTest, ALoadedLibraryWithoutAGpuIsAnotherError) {
  TorchOptions options;
  options.device = "cuda:0";
  options.cuda_library = "libm.so.6";
  const absl::Status status = InitTorch(options);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  ExpectSays(status,
             "device cuda:0: the CUDA libraries are loaded, but there "
             "is no usable GPU");
}

TEST(DeviceTest, CpuWorkGoesOn) {
  EXPECT_TRUE(InitTorch(TorchOptions()).ok());
  EXPECT_EQ(at::ones({4}).sum().item<float>(), 4);
}

// Where libtorch_cuda.so is not installed beside libtorch_cpu.so.
TEST(DeviceTest, LooksBesideTorchByDefault) {
  const absl::Status status = LoadDevice(at::Device(at::kCUDA, 0), "");
  if (status.ok()) GTEST_SKIP() << "this machine has CUDA";
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  ExpectSays(status, "libtorch_cuda.so");
  ExpectSays(status, "/");
}

TEST(DeviceTest, TrainingOnAGpuIsRefusedByName) {
  TorchOptions torch;
  torch.device = "cuda:0";
  const absl::Status status = NewTorchEngine(torch, EngineOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  ExpectSays(status, "training on device cuda:0 is not supported yet");
}

}  // namespace
}  // namespace stagecoach::worker
