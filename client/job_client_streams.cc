// The streams of a job's events and logs.
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/calls.h"
#include "client/job_client.h"
#include "rpc/channel.h"

namespace stagecoach::client {
namespace {

// The place of a worker in the request: what the caller has of its log.
v1::LogPosition* PositionOf(const std::string& worker,
                            v1::StreamLogsRequest* request) {
  for (v1::LogPosition& position : *request->mutable_from()) {
    if (position.worker() == worker) return &position;
  }
  v1::LogPosition* added = request->add_from();
  added->set_worker(worker);
  return added;
}

// Reads one stream to its end. `open` starts it, `take` gets each message.
template <typename Response>
absl::Status ReadOnce(
    Interrupt* interrupt,
    const std::function<std::unique_ptr<grpc::ClientReader<Response>>(
        grpc::ClientContext*)>& open,
    const std::function<void(const Response&)>& take, v1::StreamEnd* end,
    bool* progressed) {
  // Shared with the waker, which may run once more after it was taken away.
  const auto context = std::make_shared<grpc::ClientContext>();
  SetTimeout(context.get(), kStreamLife);
  interrupt->SetWaker([context] { context->TryCancel(); });
  const auto remove_waker =
      absl::MakeCleanup([interrupt] { interrupt->SetWaker(nullptr); });
  // Raised before the waker was there.
  if (interrupt->IsRaised()) return absl::CancelledError("interrupted");
  const auto stream = open(context.get());
  Response response;
  bool ended = false;
  while (stream->Read(&response)) {
    *progressed = true;
    take(response);
    if (response.has_end()) {
      *end = response.end();
      ended = true;
    }
  }
  const grpc::Status status = stream->Finish();
  if (ended) return absl::OkStatus();
  if (status.ok()) return absl::UnavailableError("the stream ended early");
  return rpc::FromGrpc(status);
}

}  // namespace

absl::Status JobClient::StreamEvents(
    v1::StreamEventsRequest* request, Interrupt* interrupt,
    const std::function<void(const v1::JobEvent&)>& on_event,
    v1::StreamEnd* end) {
  SetVersion(request);
  const auto open = [&](grpc::ClientContext* context) {
    return jobs_->StreamEvents(context, *request);
  };
  const auto take = [&](const v1::StreamEventsResponse& response) {
    for (const v1::JobEvent& event : response.events()) {
      on_event(event);
      request->set_after_revision(event.revision());
    }
  };
  return KeepUp(absl::InfiniteFuture(), interrupt, [&](bool* progressed) {
    return ReadOnce<v1::StreamEventsResponse>(interrupt, open, take, end,
                                              progressed);
  });
}

absl::Status JobClient::StreamLogs(
    v1::StreamLogsRequest* request, Interrupt* interrupt,
    const std::function<void(const v1::LogPiece&)>& on_piece,
    v1::StreamEnd* end) {
  SetVersion(request);
  const auto open = [&](grpc::ClientContext* context) {
    return jobs_->StreamLogs(context, *request);
  };
  const auto take = [&](const v1::StreamLogsResponse& response) {
    if (!response.has_piece()) return;
    const v1::LogPiece& piece = response.piece();
    on_piece(piece);
    PositionOf(piece.worker(), request)
        ->set_offset(piece.offset() +
                     static_cast<int64_t>(piece.data().size()));
  };
  return KeepUp(absl::InfiniteFuture(), interrupt, [&](bool* progressed) {
    return ReadOnce<v1::StreamLogsResponse>(interrupt, open, take, end,
                                            progressed);
  });
}

}  // namespace stagecoach::client
