#include "coordinator/job_history.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"

namespace stagecoach::coordinator {
namespace {

template <typename T, typename = void>
struct IsAboutAJob : std::false_type {};
template <typename T>
struct IsAboutAJob<T, std::void_t<decltype(std::declval<T>().job_id)>>
    : std::true_type {};

// One overload per kind of event; each fills in the kind and, but for a step,
// what there is to say.
struct Describer {
  JobHistoryEntry* entry;
  JobEventDetails* details;

  void operator()(const JobSubmitted& event) const {
    entry->kind = "submitted";
    details->message = absl::StrCat("job \"", event.spec.name(), "\"");
  }
  void operator()(const JobPlanning&) const { entry->kind = "planning"; }
  void operator()(const JobPlanned& event) const {
    entry->kind = "planned";
    details->message = absl::StrCat(
        event.schedule, ", ", event.stages.size(),
        event.stages.size() == 1 ? " stage" : " stages", ", verified");
  }
  void operator()(const JobReplanned& event) const {
    entry->kind = "replanned";
    details->message = absl::StrCat(
        event.schedule, ", ", event.stages.size(),
        event.stages.size() == 1 ? " stage" : " stages", ", by measured costs");
  }
  void operator()(const MemoryPredicted& event) const {
    entry->kind = "memory_predicted";
    int64_t largest = 0;
    for (const v1::MemoryInterval& worker : event.workers) {
      largest = std::max(largest, worker.high().total());
    }
    details->message =
        absl::StrCat("at most ", FormatByteSize(largest), " on any worker");
  }
  void operator()(const JobRefused& event) const {
    entry->kind = "refused";
    details->message = event.message;
    details->cause.emplace();
    details->cause->kind = FailureKind::kInvalid;
    details->cause->message = event.message;
  }
  void operator()(const JobWaiting& event) const {
    entry->kind = "waiting";
    details->message = event.reason;
  }
  void operator()(const JobPlaced& event) const {
    entry->kind = "placed";
    details->message = absl::StrCat("on ", absl::StrJoin(event.workers, ", "));
    details->workers = event.workers;
    details->epoch = event.epoch;
  }
  void operator()(const JobRunning& event) const {
    entry->kind = "running";
    details->message = absl::StrCat("transport ", event.transport);
  }
  void operator()(const JobRescheduleRequested& event) const {
    entry->kind = "reschedule_requested";
    details->message =
        event.requested.empty() ? "the present one" : event.requested;
  }
  void operator()(const JobRescheduled& event) const {
    entry->kind = "rescheduled";
    details->message =
        absl::StrCat(event.schedule, ", transport ", event.transport);
  }
  void operator()(const StepCommitted& event) const {
    entry->kind = "step";
    entry->step = event.result.step;
  }
  void operator()(const CheckpointRequested& event) const {
    entry->kind = "checkpoint_requested";
    details->message = absl::StrCat("after step ", event.step);
  }
  void operator()(const CheckpointStored& event) const {
    entry->kind = "checkpoint_stored";
    details->message = absl::StrCat("step ", event.step, ": ", event.path);
  }
  void operator()(const CheckpointFailed& event) const {
    entry->kind = "checkpoint_failed";
    details->message = absl::StrCat("step ", event.step, ": ", event.message);
  }
  void operator()(const JobRecovering& event) const {
    entry->kind = "recovering";
    details->message = event.reason;
    details->cause = event.cause;
    details->victims = event.victims;
  }
  void operator()(const JobRewound& event) const {
    entry->kind = "rewound";
    details->message = absl::StrCat(
        "goes on with step ", event.step,
        event.checkpoint.empty() ? "" : absl::StrCat(": ", event.checkpoint));
  }
  void operator()(const JobFailing& event) const {
    entry->kind = "failing";
    details->message = event.reason;
    details->cause = event.cause;
    details->victims = event.victims;
  }
  void operator()(const WorkerReleased& event) const {
    entry->kind = "worker_released";
    details->message = absl::StrCat("worker ", event.worker, " has let go");
    details->workers = {event.worker};
  }
  void operator()(const JobFailed&) const { entry->kind = "failed"; }
  void operator()(const JobCancelRequested& event) const {
    entry->kind = "cancelling";
    details->message = event.reason;
  }
  void operator()(const JobCancelled& event) const {
    entry->kind = "cancelled";
    details->message = event.reason;
  }
  void operator()(const JobSucceeded& event) const {
    entry->kind = "succeeded";
    details->message =
        absl::StrCat("parameters_sha256 ", event.parameters_sha256);
  }

  // About no job, or one that is no more.
  void operator()(const CoordinatorStarted&) const {}
  void operator()(const JobForgotten&) const {}
  void operator()(const WorkerRegistered&) const {}
  void operator()(const WorkerSuspected&) const {}
  void operator()(const WorkerAnswered&) const {}
  void operator()(const WorkerLost&) const {}
};

constexpr const char* kKinds[] = {"submitted",
                                  "planning",
                                  "planned",
                                  "replanned",
                                  "memory_predicted",
                                  "refused",
                                  "waiting",
                                  "placed",
                                  "running",
                                  "reschedule_requested",
                                  "rescheduled",
                                  "step",
                                  "checkpoint_requested",
                                  "checkpoint_stored",
                                  "checkpoint_failed",
                                  "recovering",
                                  "rewound",
                                  "failing",
                                  "worker_released",
                                  "failed",
                                  "cancelling",
                                  "cancelled",
                                  "succeeded"};

}  // namespace

const char* HistoryKind(absl::string_view kind) {
  for (const char* known : kKinds) {
    if (kind == known) return known;
  }
  return "unknown";
}

const std::string* JobOf(const EventBody& event) {
  return std::visit(
      [](const auto& body) -> const std::string* {
        if constexpr (IsAboutAJob<std::decay_t<decltype(body)>>::value) {
          return &body.job_id;
        } else {
          return nullptr;
        }
      },
      event);
}

JobHistoryEntry HistoryEntryOf(const Event& event, int64_t revision) {
  JobHistoryEntry entry;
  entry.revision = revision;
  entry.at = event.at;
  JobEventDetails details;
  std::visit(Describer{&entry, &details}, event.body);
  if (entry.step < 0) {
    entry.details = std::make_shared<const JobEventDetails>(std::move(details));
  }
  return entry;
}

}  // namespace stagecoach::coordinator
