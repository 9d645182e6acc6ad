#include "tests/nccl_host_emulator/host_communicator.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "tests/nccl_host_emulator/cuda_exports.h"
#include "tests/nccl_host_emulator/exchange.h"
#include "tests/nccl_host_emulator/faults.h"
#include "tests/nccl_host_emulator/rendezvous.h"

namespace nccl_host_emulator {
namespace {

// A group's launch is over when it was looked at so often.
constexpr int kLooksPerLaunch = 2;

void Sleep(int microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

uint64_t Sum(const Operation& operation) {
  uint64_t sum = 14695981039346656037u;
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= operation.bytes; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, operation.data + i, sizeof(word));
    sum = (sum ^ word) * 1099511628211u;
  }
  for (; i < operation.bytes; ++i) {
    sum =
        (sum ^ static_cast<unsigned char>(operation.data[i])) * 1099511628211u;
  }
  return sum;
}

std::vector<uint64_t> SumsOfSends(const Group& group) {
  std::vector<uint64_t> sums;
  for (const Operation& operation : group) {
    if (operation.send) sums.push_back(Sum(operation));
  }
  return sums;
}

}  // namespace

HostCommunicator::HostCommunicator(int rank, int ranks, int device,
                                   bool blocking)
    : rank_(rank),
      ranks_(ranks),
      device_(device),
      blocking_(blocking),
      owner_(std::this_thread::get_id()) {}

HostCommunicator::~HostCommunicator() {
  if (fd_ >= 0) close(fd_);
}

// --- making it ---------------------------------------------------------------

void HostCommunicator::StartInitialising(const std::string& root, bool hang,
                                         int delay_ms) {
  initialising_thread_ = true;
  std::thread([self = shared_from_this(), root, hang, delay_ms] {
    self->Initialise(root, hang, delay_ms);
  }).detach();
}

void HostCommunicator::Initialise(const std::string& root, bool hang,
                                  int delay_ms) {
  if (hang) WaitUntilAborted();
  Sleep(delay_ms * 1000);
  Joined joined;
  if (!aborted()) {
    joined = JoinRanks(root, ranks_, rank_, PciAddress(device_), &joining_);
  }
  std::lock_guard<std::mutex> lock(mu_);
  fd_ = joined.fd;
  if (aborted() && fd_ >= 0) shutdown(fd_, SHUT_RDWR);
  if (joined.result != ncclSuccess && !aborted()) {
    error_ = static_cast<ncclResult_t>(joined.result);
    last_error_ = joined.error;
  }
  if (state_ == State::kInitialising) state_ = State::kReady;
  initialising_thread_ = false;
  changed_.notify_all();
}

void HostCommunicator::WaitInitialised() {
  std::unique_lock<std::mutex> lock(mu_);
  while (initialising_thread_) changed_.wait(lock);
}

// --- what a caller may do ----------------------------------------------------

ncclResult_t HostCommunicator::CheckCall(const char* call) {
  const std::string name = call;
  std::lock_guard<std::mutex> lock(mu_);
  std::string misuse;
  ncclResult_t result = ncclSuccess;
  const bool looks = name == "ncclCommGetAsyncError";
  const bool ends = name == "ncclCommAbort";
  if (std::this_thread::get_id() != owner_) {
    misuse = "from another thread than the communicator's";
    result = ncclInvalidUsage;
  } else if (!looks && !ends && state_ == State::kInitialising) {
    misuse = "before the communicator is ready";
    result = ncclInvalidUsage;
  } else if (!looks && !ends && pending_ != nullptr) {
    misuse = "while the last call is in progress";
    result = ncclInvalidUsage;
  }
  if (!misuse.empty()) Faults::Get().AddMisuse(name + " " + misuse);
  return result;
}

ncclResult_t HostCommunicator::AsynchronousError() {
  std::unique_ptr<Pending> launch;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (error_ != ncclSuccess) return error_;
    if (state_ == State::kInitialising || state_ == State::kFinalizing) {
      return ncclInProgress;
    }
    if (pending_ == nullptr) return ncclSuccess;
    if (++pending_->looks < kLooksPerLaunch) return ncclInProgress;
    launch = std::move(pending_);
  }
  PutIntoStream(std::move(launch->group), launch->stream);
  return ncclSuccess;
}

std::string HostCommunicator::last_error() {
  std::lock_guard<std::mutex> lock(mu_);
  return last_error_;
}

bool HostCommunicator::HasWorkUnderWay() {
  std::lock_guard<std::mutex> lock(mu_);
  return launched_groups_ != ended_groups_;
}

void HostCommunicator::Fail(ncclResult_t result, const std::string& why) {
  std::lock_guard<std::mutex> lock(mu_);
  if (error_ == ncclSuccess && !aborted()) {
    error_ = result;
    last_error_ = why;
  }
  changed_.notify_all();
}

void HostCommunicator::WaitUntilAborted() {
  std::unique_lock<std::mutex> lock(mu_);
  while (!aborted()) changed_.wait(lock);
}

// --- transfers ---------------------------------------------------------------

ncclResult_t HostCommunicator::Launch(
    Group group, const std::shared_ptr<HostStream>& stream) {
  if (!blocking_) {
    std::lock_guard<std::mutex> lock(mu_);
    pending_ = std::make_unique<Pending>();
    pending_->group = std::move(group);
    pending_->stream = stream;
    return ncclInProgress;
  }
  PutIntoStream(std::move(group), stream);
  return ncclSuccess;
}

void HostCommunicator::PutIntoStream(
    Group group, const std::shared_ptr<HostStream>& stream) {
  uint64_t turn = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (Operation& operation : group) {
      operation.sequence = operation.send ? sends_++ : receives_++;
    }
    turn = launched_groups_++;
  }
  stream->Add([self = shared_from_this(), group = std::move(group), turn] {
    self->Run(group, turn);
  });
}

void HostCommunicator::Run(const Group& group, uint64_t turn) {
  {
    std::unique_lock<std::mutex> lock(mu_);
    while (ended_groups_ != turn && !aborted()) changed_.wait(lock);
  }
  if (!aborted() && !MoveBytes(group)) WaitUntilAborted();
  std::lock_guard<std::mutex> lock(mu_);
  ++ended_groups_;
  changed_.notify_all();
}

// False: the group never ends.
bool HostCommunicator::MoveBytes(const Group& group) {
  int delay = Faults::Get().JitterMicroseconds();
  for (const Operation& operation : group) {
    delay += 1000 * operation.delay_milliseconds;
    if (operation.asynchronous_error != 0) {
      Fail(static_cast<ncclResult_t>(operation.asynchronous_error), "injected");
    }
    if (operation.never_ends || operation.asynchronous_error != 0) return false;
  }
  Sleep(delay);
  const std::vector<uint64_t> before = SumsOfSends(group);
  std::string why;
  Exchange exchange(fd_, group, &ready_, &peer_final_);
  switch (exchange.Run(&why)) {
    case Exchange::Outcome::kDone:
      if (SumsOfSends(group) != before) {
        Faults::Get().AddMisuse("a buffer was written while it was sent");
      }
      return true;
    case Exchange::Outcome::kMismatch:
      Faults::Get().AddMisuse(why);
      Fail(ncclInvalidUsage, why);
      return false;
    case Exchange::Outcome::kPeerGone:
      Fail(ncclRemoteError, "the other rank has gone");
      return false;
  }
  return false;
}

// --- the end -----------------------------------------------------------------

ncclResult_t HostCommunicator::Finalize() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (launched_groups_ != ended_groups_) {
      Faults::Get().AddMisuse("ncclCommFinalize with work under way");
    }
    state_ = State::kFinalizing;
  }
  std::thread([self = shared_from_this()] {
    {
      std::unique_lock<std::mutex> lock(self->mu_);
      while (self->launched_groups_ != self->ended_groups_ &&
             !self->aborted()) {
        self->changed_.wait(lock);
      }
    }
    // A rank that has gone is quiet too.
    if (!self->aborted() && SendFinal(self->fd_) && !self->peer_final_) {
      (void)AwaitFinal(self->fd_);
    }
    std::lock_guard<std::mutex> lock(self->mu_);
    if (self->state_ == State::kFinalizing) self->state_ = State::kFinalized;
    self->changed_.notify_all();
  }).detach();
  if (!blocking_) return ncclInProgress;
  std::unique_lock<std::mutex> lock(mu_);
  while (state_ == State::kFinalizing) changed_.wait(lock);
  return ncclSuccess;
}

ncclResult_t HostCommunicator::Destroy() {
  std::lock_guard<std::mutex> lock(mu_);
  if (state_ != State::kFinalized) {
    Faults::Get().AddMisuse("ncclCommDestroy before ncclCommFinalize is over");
  }
  aborted_ = true;
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
  state_ = State::kGone;
  changed_.notify_all();
  return ncclSuccess;
}

void HostCommunicator::Abort() {
  std::unique_lock<std::mutex> lock(mu_);
  aborted_ = true;
  pending_.reset();
  joining_.Cancel();
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
  state_ = State::kGone;
  changed_.notify_all();
  while (launched_groups_ != ended_groups_ || initialising_thread_) {
    changed_.wait(lock);
  }
}

}  // namespace nccl_host_emulator
