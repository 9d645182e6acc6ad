// Calls of MemoryService.
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "client/calls.h"
#include "client/job_client.h"

namespace stagecoach::client {

absl::StatusOr<v1::GetMemoryStatsResponse> JobClient::AskMemory(
    MemoryCall call, const std::string& job_id) {
  auto request = Versioned<v1::GetMemoryStatsRequest>();
  request.set_job_id(job_id);
  grpc::ClientContext context;
  SetTimeout(&context, kCallTimeout);
  v1::GetMemoryStatsResponse response;
  const grpc::Status status =
      (memory_.get()->*call)(&context, request, &response);
  if (!status.ok()) return ToStatus(status);
  return response;
}

absl::StatusOr<v1::GetMemoryStatsResponse> JobClient::MemoryStats(
    const std::string& job_id) {
  return AskMemory(&v1::MemoryService::Stub::GetStats, job_id);
}

absl::StatusOr<v1::GetMemoryStatsResponse> JobClient::HeldMemory(
    const std::string& job_id) {
  return AskMemory(&v1::MemoryService::Stub::ListHeld, job_id);
}

absl::StatusOr<v1::GetMemoryStatsResponse> JobClient::SnapshotMemory(
    const std::string& job_id) {
  return AskMemory(&v1::MemoryService::Stub::Snapshot, job_id);
}

absl::StatusOr<v1::GetMemoryStatsResponse> JobClient::ResetMemoryPeaks(
    const std::string& job_id) {
  return AskMemory(&v1::MemoryService::Stub::ResetPeak, job_id);
}

absl::StatusOr<v1::GetMemoryStatsResponse> JobClient::TrimMemory(
    const std::string& job_id) {
  return AskMemory(&v1::MemoryService::Stub::Trim, job_id);
}

absl::Status JobClient::WatchMemory(
    const std::string& job_id, absl::Duration interval, Interrupt* interrupt,
    const std::function<void(const v1::GetMemoryStatsResponse&)>& on_figures) {
  auto request = Versioned<v1::WatchMemoryStatsRequest>();
  request.set_job_id(job_id);
  request.set_interval_milliseconds(absl::ToInt64Milliseconds(interval));
  // Shared with the waker, which may run once more after it was taken away.
  const auto context = std::make_shared<grpc::ClientContext>();
  SetTimeout(context.get(), kStreamLife);
  interrupt->SetWaker([context] { context->TryCancel(); });
  const auto remove_waker =
      absl::MakeCleanup([interrupt] { interrupt->SetWaker(nullptr); });
  // Raised before the waker was there.
  if (interrupt->IsRaised()) return absl::CancelledError("interrupted");
  const auto stream = memory_->WatchStats(context.get(), request);
  v1::GetMemoryStatsResponse response;
  while (stream->Read(&response)) on_figures(response);
  const grpc::Status status = stream->Finish();
  if (interrupt->IsRaised()) return absl::CancelledError("interrupted");
  return status.ok() ? absl::OkStatus() : ToStatus(status);
}

}  // namespace stagecoach::client
