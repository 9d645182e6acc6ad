// NCCL's own names, as its header declares them, for two ranks in host memory.
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/nccl_host_emulator/cuda_exports.h"
#include "tests/nccl_host_emulator/faults.h"
#include "tests/nccl_host_emulator/host_communicator.h"
#include "tests/nccl_host_emulator/rendezvous.h"

namespace nccl_host_emulator {
namespace {

// The communicators there are. Those that are gone are remembered, so that a
// late call is recognised. Thread-safe.
class Communicators {
 public:
  static Communicators& Get() {
    static auto* const communicators = new Communicators;
    return *communicators;
  }
  ncclComm_t Add(std::shared_ptr<HostCommunicator> communicator) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
    gone_.erase(handle);
    live_[handle] = std::move(communicator);
    return handle;
  }
  void Forget(const HostCommunicator* communicator) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto handle = reinterpret_cast<ncclComm_t>(
        const_cast<HostCommunicator*>(communicator));
    live_.erase(handle);
    gone_.insert(handle);
  }
  // Null for one that is gone, or never was.
  std::shared_ptr<HostCommunicator> Find(const char* call, ncclComm_t handle) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto found = live_.find(handle);
    if (found != live_.end()) return found->second;
    if (gone_.count(handle) != 0) {
      Faults::Get().AddMisuse(
          std::string(call) +
          " after the communicator was destroyed or aborted");
    }
    return nullptr;
  }
  // Freeing a communicator's memory waits for everything on its device, so one
  // that is aborted alone waits for the work of the others.
  void WaitForDevice(int device) {
    while (Busy(device)) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

 private:
  bool Busy(int device) {
    std::lock_guard<std::mutex> lock(mu_);
    return std::any_of(live_.begin(), live_.end(), [device](const auto& each) {
      return each.second->device() == device && each.second->HasWorkUnderWay();
    });
  }

  std::mutex mu_;
  std::map<ncclComm_t, std::shared_ptr<HostCommunicator>> live_;
  std::set<ncclComm_t> gone_;
};

// The calls between the outermost ncclGroupStart and ncclGroupEnd.
struct OpenGroup {
  struct Work {
    std::shared_ptr<HostStream> stream;
    Group operations;
  };
  int depth = 0;
  std::map<std::shared_ptr<HostCommunicator>, Work> work;
  std::vector<std::shared_ptr<HostCommunicator>> aborts;
};
thread_local OpenGroup open_group;

bool Fails(const char* call, ncclResult_t* result) {
  const Fault fault = Faults::Get().Take(call, CurrentDevice());
  if (fault.kind == Fault::Kind::kHang) Faults::Get().Hang();
  *result = static_cast<ncclResult_t>(fault.value);
  return fault.kind == Fault::Kind::kFail;
}

ncclResult_t CloseGroup() {
  OpenGroup group = std::exchange(open_group, OpenGroup());
  ncclResult_t result = ncclSuccess;
  for (auto& [communicator, work] : group.work) {
    const ncclResult_t launched =
        communicator->Launch(std::move(work.operations), work.stream);
    if (launched != ncclSuccess) result = launched;
  }
  for (const auto& communicator : group.aborts) {
    Communicators::Get().Forget(communicator.get());
    communicator->Abort();
  }
  for (const auto& communicator : group.aborts) {
    Communicators::Get().WaitForDevice(communicator->device());
  }
  return result;
}

ncclResult_t Post(const char* call, Operation operation, size_t count,
                  ncclDataType_t type, int peer, ncclComm_t handle,
                  cudaStream_t stream) {
  const Fault fault = Faults::Get().Take(call, CurrentDevice());
  if (fault.kind == Fault::Kind::kFail) {
    return static_cast<ncclResult_t>(fault.value);
  }
  operation.never_ends = fault.kind == Fault::Kind::kHang;
  if (fault.kind == Fault::Kind::kAsync) {
    operation.asynchronous_error = fault.value;
  }
  if (fault.kind == Fault::Kind::kDelay) {
    operation.delay_milliseconds = fault.value;
  }
  const std::shared_ptr<HostCommunicator> communicator =
      Communicators::Get().Find(call, handle);
  if (communicator == nullptr) return ncclInvalidArgument;
  const ncclResult_t allowed = communicator->CheckCall(call);
  if (allowed != ncclSuccess) return allowed;
  const std::shared_ptr<HostStream> found = StreamOf(stream);
  if (peer != 1 - communicator->rank() || found == nullptr ||
      (type != ncclUint8 && type != ncclInt8)) {
    Faults::Get().AddMisuse(std::string(call) +
                            ": a peer, stream or type that is not emulated");
    return ncclInvalidArgument;
  }
  operation.bytes = count;
  ++open_group.depth;
  OpenGroup::Work& work = open_group.work[communicator];
  work.stream = found;
  work.operations.push_back(operation);
  return --open_group.depth == 0 ? CloseGroup() : ncclSuccess;
}

}  // namespace
}  // namespace nccl_host_emulator

using namespace nccl_host_emulator;  // NOLINT: the whole file is its interface

#define EMULATOR_MAY_FAIL(name)                   \
  do {                                            \
    ncclResult_t injected = ncclSuccess;          \
    if (Fails(#name, &injected)) return injected; \
  } while (false)

// The communicator of a handle, if this call may be made on it.
#define EMULATOR_COMMUNICATOR(name, variable, handle)          \
  const std::shared_ptr<HostCommunicator> variable =           \
      Communicators::Get().Find(#name, handle);                \
  if (variable == nullptr) return ncclInvalidArgument;         \
  if (const ncclResult_t allowed = variable->CheckCall(#name); \
      allowed != ncclSuccess) {                                \
    return allowed;                                            \
  }

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = Faults::Get().Setting("version", NCCL_VERSION_CODE);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t handle) {
  // Valid until the thread's next call, as far as its callers go.
  static thread_local std::string text;
  const auto communicator =
      handle == nullptr ? nullptr
                        : Communicators::Get().Find("ncclGetLastError", handle);
  text = communicator == nullptr ? "" : communicator->last_error();
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  EMULATOR_MAY_FAIL(ncclGetUniqueId);
  const std::string name = ListenForRanks();
  if (name.empty()) return ncclSystemError;
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Fault fault =
      Faults::Get().Take("ncclCommInitRankConfig", CurrentDevice());
  if (fault.kind == Fault::Kind::kFail) {
    return static_cast<ncclResult_t>(fault.value);
  }
  if (ranks != 2 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  const bool blocking = config == nullptr || config->blocking != 0;
  auto communicator = std::make_shared<HostCommunicator>(
      rank, ranks, CurrentDevice(), blocking);
  *handle = Communicators::Get().Add(communicator);
  id.internal[sizeof(id.internal) - 1] = '\0';
  communicator->StartInitialising(
      id.internal, fault.kind == Fault::Kind::kHang,
      fault.kind == Fault::Kind::kDelay ? fault.value : 0);
  if (!blocking) return ncclInProgress;
  communicator->WaitInitialised();
  return communicator->AsynchronousError();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  EMULATOR_MAY_FAIL(ncclCommGetAsyncError);
  EMULATOR_COMMUNICATOR(ncclCommGetAsyncError, communicator, handle);
  *error = communicator->AsynchronousError();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  EMULATOR_MAY_FAIL(ncclCommFinalize);
  EMULATOR_COMMUNICATOR(ncclCommFinalize, communicator, handle);
  return communicator->Finalize();
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  EMULATOR_MAY_FAIL(ncclCommDestroy);
  EMULATOR_COMMUNICATOR(ncclCommDestroy, communicator, handle);
  const ncclResult_t result = communicator->Destroy();
  Communicators::Get().Forget(communicator.get());
  Communicators::Get().WaitForDevice(communicator->device());
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  EMULATOR_MAY_FAIL(ncclCommAbort);
  EMULATOR_COMMUNICATOR(ncclCommAbort, communicator, handle);
  ++open_group.depth;
  open_group.aborts.push_back(communicator);
  return --open_group.depth == 0 ? CloseGroup() : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void* data,
                              size_t /*bytes*/, void** registration) {
  EMULATOR_MAY_FAIL(ncclCommRegister);
  EMULATOR_COMMUNICATOR(ncclCommRegister, communicator, handle);
  *registration = data;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle,
                                void* /*registration*/) {
  EMULATOR_MAY_FAIL(ncclCommDeregister);
  EMULATOR_COMMUNICATOR(ncclCommDeregister, communicator, handle);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_group.depth == 0) return ncclInvalidUsage;
  const Fault fault = Faults::Get().Take("ncclGroupEnd", CurrentDevice());
  if (--open_group.depth > 0) return ncclSuccess;
  if (fault.kind == Fault::Kind::kFail) {
    open_group = OpenGroup();
    return static_cast<ncclResult_t>(fault.value);
  }
  return CloseGroup();
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t handle, cudaStream_t stream) {
  Operation operation;
  operation.send = true;
  operation.data = const_cast<char*>(static_cast<const char*>(data));
  return Post("ncclSend", operation, count, type, peer, handle, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, cudaStream_t stream) {
  Operation operation;
  operation.data = static_cast<char*>(data);
  return Post("ncclRecv", operation, count, type, peer, handle, stream);
}

ncclResult_t ncclMemAlloc(void** data, size_t bytes) {
  EMULATOR_MAY_FAIL(ncclMemAlloc);
  return posix_memalign(data, 4096, bytes == 0 ? 1 : bytes) == 0
             ? ncclSuccess
             : ncclSystemError;
}

ncclResult_t ncclMemFree(void* data) {
  std::free(data);
  return ncclSuccess;
}

}  // extern "C"
