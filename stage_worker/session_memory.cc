// Answers to MemoryQuery.
#include <chrono>
#include <utility>

#include "schedule/action.h"
#include "stage_worker/memory_report.h"
#include "stage_worker/session.h"

namespace stagecoach::worker {
namespace {

void ToProto(const HeldBytes& held, v1::HeldBytes* proto) {
  proto->set_stage(held.stage.value());
  proto->set_microbatch(held.microbatch.value());
  proto->set_op(held.op);
  proto->set_tensors(held.tensors);
  proto->set_bytes(held.bytes);
}

void ToProto(const MemoryPoint& point, v1::MemoryPoint* proto) {
  proto->set_nanoseconds(point.nanoseconds);
  proto->set_step(point.step);
  proto->set_action(schedule::ToString(point.action));
  for (const int64_t bytes : point.bytes) proto->add_categories(bytes);
}

}  // namespace

void Session::OnMemoryQuery(const v1::MemoryQuery& query) {
  const bool held = held_.placement != nullptr && state_ != SessionState::kIdle;
  if (!held) return Send(MemoryReportFor(query));
  if (!query.held()) {
    // Before the figures are read.
    const int64_t trimmed = query.trim() ? held_.placement->TrimMemory() : 0;
    v1::WorkerMessage message = MemoryReportFor(query);
    message.mutable_memory_report()->mutable_memory()->set_trimmed_bytes(
        trimmed);
    Send(std::move(message));
    if (query.reset_peaks()) held_.placement->ResetPeaks();
    return;
  }
  // The engine thread knows; it answers between two actions, or here if it has
  // none to run.
  auto self = shared_from_this();
  held_.placement->AskHeld(
      [self, epoch = held_.epoch, query](std::vector<HeldBytes> bytes,
                                         std::chrono::nanoseconds took) {
        self->options_.executor->Add(
            [self, epoch, query, bytes = std::move(bytes), took] {
              self->SendHeld(epoch, query, bytes, took);
            });
      });
  options_.engine->Add(
      [placement = held_.placement] { placement->ServeQuestions(); });
}

void Session::SendHeld(Epoch epoch, const v1::MemoryQuery& query,
                       const std::vector<HeldBytes>& held,
                       std::chrono::nanoseconds took) {
  if (!IsCurrent(epoch) || held_.placement == nullptr) return;
  v1::WorkerMessage message = MemoryReportFor(query);
  v1::WorkerMemory* memory = message.mutable_memory_report()->mutable_memory();
  for (const HeldBytes& entry : held) ToProto(entry, memory->add_held());
  memory->set_answer_nanoseconds(memory->answer_nanoseconds() + took.count());
  Send(std::move(message));
}

v1::WorkerMessage Session::MemoryReportFor(const v1::MemoryQuery& query) const {
  v1::WorkerMessage message;
  v1::MemoryReport* report = message.mutable_memory_report();
  report->set_query(query.query());
  if (held_.placement == nullptr || state_ == SessionState::kIdle) {
    report->mutable_memory()->set_worker(options_.worker);
    report->mutable_memory()->set_step(-1);
    return message;
  }
  report->set_job_id(held_.job_id);
  const auto begin = std::chrono::steady_clock::now();
  v1::WorkerMemory* memory = report->mutable_memory();
  ToProto(options_.worker, held_.placement->Memory(), memory);
  if (query.points()) {
    for (const MemoryPoint& point : held_.placement->Timeline()) {
      ToProto(point, memory->add_points());
    }
  }
  const std::chrono::nanoseconds took =
      std::chrono::steady_clock::now() - begin;
  memory->set_answer_nanoseconds(took.count());
  return message;
}

}  // namespace stagecoach::worker
