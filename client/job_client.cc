#include "client/job_client.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/version.h"
#include "client/calls.h"
#include "rpc/address.h"
#include "rpc/channel.h"

namespace stagecoach::client {
namespace {

// Of a call that makes and verifies a schedule.
constexpr absl::Duration kPlanTimeout = absl::Seconds(60);

std::string NewRequestId() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppendFormat(&id, "%08x", static_cast<uint32_t>(device()));
  }
  return id;
}

// Makes the call, and again while the coordinator cannot be reached: only for
// calls that do no more the second time.
grpc::Status Repeatedly(
    const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  const absl::Time give_up = Now() + kCommandPatience;
  while (true) {
    grpc::ClientContext context;
    SetTimeout(&context, kCallTimeout);
    grpc::Status status = call(&context);
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE ||
        Now() >= give_up) {
      return status;
    }
    absl::SleepFor(kReconnectPause);
  }
}

// A coordinator that uses TLS hangs up on who does not, and the other way
// round.
std::string TlsHint(const std::string& endpoint) {
  const auto identity = rpc::TlsInUse();
  if (identity.ok() && *identity != nullptr) {
    return "; this command uses TLS (--tls-... or STAGECOACH_TLS_...): does "
           "it?";
  }
  const absl::StatusOr<rpc::Address> address = rpc::ParseAddress(endpoint);
  if (!address.ok() || address->IsLoopback()) return "";
  return "; if it uses TLS, give --tls-authority, --tls-certificate and "
         "--tls-key";
}

}  // namespace

JobClient::JobClient(std::string endpoint)
    : endpoint_(std::move(endpoint)),
      channel_(rpc::Connect(endpoint_)),
      jobs_(v1::JobService::NewStub(channel_)),
      memory_(v1::MemoryService::NewStub(channel_)),
      cluster_(v1::ClusterService::NewStub(channel_)) {}

absl::Status JobClient::ToStatus(const grpc::Status& status) const {
  SC_RETURN_IF_ERROR(rpc::TlsInUse().status());
  absl::Status converted = rpc::FromGrpc(status);
  switch (converted.code()) {
    case absl::StatusCode::kUnavailable:
      return absl::UnavailableError(
          absl::StrCat("no coordinator can be reached at ", endpoint_, " (",
                       converted.message(),
                       "); `stagecoach up` starts one here, --endpoint or "
                       "STAGECOACH_ENDPOINT say where one is",
                       TlsHint(endpoint_)));
    case absl::StatusCode::kDeadlineExceeded:
      return absl::UnavailableError(absl::StrCat(
          "the coordinator at ", endpoint_, " did not answer within ",
          absl::FormatDuration(kCallTimeout),
          "; check that it runs and that --endpoint is right"));
    case absl::StatusCode::kUnimplemented:
      // gRPC's own answer to a call that the server does not have is empty.
      if (!converted.message().empty()) return converted;
      return absl::UnimplementedError(absl::StrCat(
          "the coordinator at ", endpoint_, " does not know this call: it is ",
          "another version than this client, ", kVersion,
          "; install the same version on both"));
    default:
      return converted;
  }
}

absl::StatusOr<std::string> JobClient::Submit(const v1::JobSpec& spec,
                                              bool resume) {
  auto request = Versioned<v1::SubmitJobRequest>();
  request.set_request_id(NewRequestId());
  *request.mutable_spec() = spec;
  request.set_resume(resume);
  v1::SubmitJobResponse response;
  const grpc::Status status = Repeatedly([&](grpc::ClientContext* context) {
    return jobs_->SubmitJob(context, request, &response);
  });
  if (!status.ok()) return ToStatus(status);
  return response.job_id();
}

absl::StatusOr<v1::Job> JobClient::Get(const std::string& job_id) {
  auto request = Versioned<v1::GetJobRequest>();
  request.set_job_id(job_id);
  v1::Job job;
  const grpc::Status status = Repeatedly([&](grpc::ClientContext* context) {
    return jobs_->GetJob(context, request, &job);
  });
  if (!status.ok()) return ToStatus(status);
  return job;
}

absl::StatusOr<v1::ListJobsResponse> JobClient::List() {
  const auto request = Versioned<v1::ListJobsRequest>();
  grpc::ClientContext context;
  SetTimeout(&context, kCallTimeout);
  v1::ListJobsResponse response;
  const grpc::Status status = jobs_->ListJobs(&context, request, &response);
  if (!status.ok()) return ToStatus(status);
  return response;
}

absl::StatusOr<v1::Job> JobClient::Cancel(const std::string& job_id,
                                          const std::string& reason) {
  auto request = Versioned<v1::CancelJobRequest>();
  request.set_job_id(job_id);
  request.set_reason(reason);
  v1::CancelJobResponse response;
  const grpc::Status status = Repeatedly([&](grpc::ClientContext* context) {
    return jobs_->CancelJob(context, request, &response);
  });
  if (!status.ok()) return ToStatus(status);
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::Job> JobClient::Reschedule(const std::string& job_id,
                                              const std::string& schedule,
                                              int64_t send_budget) {
  auto request = Versioned<v1::RescheduleJobRequest>();
  request.set_job_id(job_id);
  request.set_schedule(schedule);
  request.set_send_budget(send_budget);
  grpc::ClientContext context;
  SetTimeout(&context, kPlanTimeout);
  v1::RescheduleJobResponse response;
  const grpc::Status status =
      jobs_->RescheduleJob(&context, request, &response);
  if (!status.ok()) return ToStatus(status);
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::CheckpointJobResponse> JobClient::Checkpoint(
    const std::string& job_id) {
  auto request = Versioned<v1::CheckpointJobRequest>();
  request.set_job_id(job_id);
  grpc::ClientContext context;
  SetTimeout(&context, kCallTimeout);
  v1::CheckpointJobResponse response;
  const grpc::Status status =
      jobs_->CheckpointJob(&context, request, &response);
  if (!status.ok()) return ToStatus(status);
  return response;
}

absl::StatusOr<v1::ListWorkersResponse> JobClient::Workers() {
  const auto request = Versioned<v1::ListWorkersRequest>();
  grpc::ClientContext context;
  SetTimeout(&context, kCallTimeout);
  v1::ListWorkersResponse response;
  const grpc::Status status =
      cluster_->ListWorkers(&context, request, &response);
  if (!status.ok()) return ToStatus(status);
  return response;
}

absl::StatusOr<v1::GetCoordinatorResponse> JobClient::Coordinator() {
  const auto request = Versioned<v1::GetCoordinatorRequest>();
  grpc::ClientContext context;
  SetTimeout(&context, kCallTimeout);
  v1::GetCoordinatorResponse response;
  const grpc::Status status =
      cluster_->GetCoordinator(&context, request, &response);
  if (!status.ok()) return ToStatus(status);
  return response;
}

absl::Status JobClient::WatchOnce(
    const std::string& job_id, absl::Time deadline, Interrupt* interrupt,
    JobView* view, const std::function<void(const v1::Job&)>& on_change,
    bool* progressed) {
  auto request = Versioned<v1::WatchJobRequest>();
  request.set_job_id(job_id);
  request.set_after_revision(view->revision());
  request.set_after_step(view->last_step());
  // Shared with the waker, which may run once more after it was taken away.
  const auto context = std::make_shared<grpc::ClientContext>();
  SetTimeout(context.get(), std::min(deadline - Now(), kStreamLife));
  interrupt->SetWaker([context] { context->TryCancel(); });
  const auto remove_waker =
      absl::MakeCleanup([interrupt] { interrupt->SetWaker(nullptr); });
  // Raised before the waker was there.
  if (interrupt->IsRaised()) return absl::CancelledError("interrupted");

  const auto stream = jobs_->WatchJob(context.get(), request);
  v1::WatchJobResponse response;
  while (stream->Read(&response)) {
    *progressed = true;
    view->Apply(response.job());
    on_change(response.job());
  }
  const grpc::Status status = stream->Finish();
  if (view->finished()) return absl::OkStatus();
  if (status.ok()) return absl::UnavailableError("the stream ended");
  return rpc::FromGrpc(status);
}

absl::Status JobClient::Watch(
    const std::string& job_id, absl::Time deadline, Interrupt* interrupt,
    JobView* view, const std::function<void(const v1::Job&)>& on_change) {
  return KeepUp(deadline, interrupt, [&](bool* progressed) {
    return WatchOnce(job_id, deadline, interrupt, view, on_change, progressed);
  });
}

absl::Status JobClient::KeepUp(
    absl::Time deadline, Interrupt* interrupt,
    const std::function<absl::Status(bool* progressed)>& once) const {
  absl::Time give_up = absl::InfiniteFuture();
  while (true) {
    bool progressed = false;
    absl::Status status = once(&progressed);
    if (status.ok() || interrupt->IsRaised()) {
      return status.ok() ? status : absl::CancelledError("interrupted");
    }
    const absl::Time now = Now();
    if (now >= deadline) return absl::DeadlineExceededError("not finished");
    if (!IsTransient(status)) return status;
    if (progressed || status.code() == absl::StatusCode::kDeadlineExceeded) {
      give_up = absl::InfiniteFuture();
    }
    give_up = std::min(give_up, now + kReconnectPatience);
    if (now >= give_up) {
      return ToStatus(rpc::ToGrpc(absl::UnavailableError(status.message())));
    }
    if (interrupt->WaitFor(kReconnectPause)) {
      return absl::CancelledError("interrupted");
    }
  }
}

}  // namespace stagecoach::client
