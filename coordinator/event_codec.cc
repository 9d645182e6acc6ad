#include "coordinator/event_codec.h"

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stagecoach::coordinator {
namespace {

template <typename Proto, typename Item>
std::vector<Item> ToVector(const google::protobuf::RepeatedPtrField<Proto>& in,
                           Item (*convert)(const Proto&)) {
  std::vector<Item> out;
  for (const Proto& entry : in) out.push_back(convert(entry));
  return out;
}

template <typename T>
std::vector<T> Copies(const google::protobuf::RepeatedPtrField<T>& in) {
  return std::vector<T>(in.begin(), in.end());
}

template <typename T>
void AddAll(const std::vector<T>& in,
            google::protobuf::RepeatedPtrField<T>* out) {
  for (const T& entry : in) *out->Add() = entry;
}

// ---- events to bytes: one overload per kind ---------------------------------

struct Writer {
  v1::JournalEvent* out;

  void operator()(const CoordinatorStarted& event) const {
    out->mutable_coordinator_started()->set_term(event.term.value());
  }
  void operator()(const WorkerRegistered& event) const {
    v1::WorkerRecord* proto = out->mutable_worker_registered();
    proto->set_worker(event.worker);
    proto->set_incarnation(event.incarnation.value());
    proto->set_host(event.host);
    proto->set_process_id(event.process_id);
    proto->set_device(event.device);
    proto->set_version(event.version);
    proto->set_torch_version(event.torch_version);
    proto->set_peer_address(event.peer_address);
  }
  void operator()(const WorkerSuspected& event) const {
    out->mutable_worker_suspected()->set_worker(event.worker);
    out->mutable_worker_suspected()->set_reason(event.reason);
  }
  void operator()(const WorkerAnswered& event) const {
    out->mutable_worker_answered()->set_worker(event.worker);
  }
  void operator()(const WorkerLost& event) const {
    out->mutable_worker_lost()->set_worker(event.worker);
    out->mutable_worker_lost()->set_reason(event.reason);
  }
  void operator()(const WorkerReleased& event) const {
    v1::WorkerReleasedEvent* proto = out->mutable_worker_released();
    proto->set_worker(event.worker);
    proto->set_job_id(event.job_id);
    if (event.memory.has_value()) *proto->mutable_memory() = *event.memory;
    proto->set_finished(event.finished);
    AddAll(event.parameters, proto->mutable_parameters());
    for (const MicrobatchLossSum& loss : event.evaluation_losses) {
      ToProto(loss, proto->add_evaluation_losses());
    }
  }
  void operator()(const JobSubmitted& event) const {
    v1::JobSubmittedEvent* proto = out->mutable_job_submitted();
    proto->set_job_id(event.job_id);
    proto->set_request_id(event.request_id);
    *proto->mutable_spec() = event.spec;
    proto->set_resume(event.resume);
  }
  void operator()(const JobPlanning& event) const {
    out->mutable_job_planning()->set_job_id(event.job_id);
  }
  void operator()(const JobPlanned& event) const {
    v1::JobPlannedEvent* proto = out->mutable_job_planned();
    proto->set_job_id(event.job_id);
    proto->set_schedule(event.schedule);
    proto->set_schedule_id(event.schedule_id);
    for (const StagePlan& stage : event.stages) {
      ToProto(stage, proto->add_stages());
    }
    proto->set_first_step(event.first_step);
    proto->set_checkpoint(event.checkpoint);
    if (event.loss_scale.has_value()) {
      *proto->mutable_loss_scale() = *event.loss_scale;
    }
  }
  void operator()(const JobReplanned& event) const {
    v1::JobReplannedEvent* proto = out->mutable_job_replanned();
    proto->set_job_id(event.job_id);
    proto->set_schedule(event.schedule);
    proto->set_schedule_id(event.schedule_id);
    for (const StagePlan& stage : event.stages) {
      ToProto(stage, proto->add_stages());
    }
    *proto->mutable_profile() = event.profile;
  }
  void operator()(const MemoryPredicted& event) const {
    v1::MemoryPredictedEvent* proto = out->mutable_memory_predicted();
    proto->set_job_id(event.job_id);
    for (const v1::MemoryInterval& worker : event.workers) {
      *proto->add_workers() = worker;
    }
  }
  void operator()(const JobRefused& event) const {
    out->mutable_job_refused()->set_job_id(event.job_id);
    out->mutable_job_refused()->set_message(event.message);
  }
  void operator()(const JobWaiting& event) const {
    out->mutable_job_waiting()->set_job_id(event.job_id);
    out->mutable_job_waiting()->set_reason(event.reason);
  }
  void operator()(const JobPlaced& event) const {
    v1::JobPlacedEvent* proto = out->mutable_job_placed();
    proto->set_job_id(event.job_id);
    proto->set_epoch(event.epoch.value());
    AddAll(event.workers, proto->mutable_workers());
  }
  void operator()(const JobRunning& event) const {
    v1::JobRunningEvent* proto = out->mutable_job_running();
    proto->set_job_id(event.job_id);
    proto->set_transport(event.transport);
    AddAll(event.edges, proto->mutable_edges());
    for (int64_t bytes : event.receive_pool_bytes) {
      proto->add_receive_pool_bytes(bytes);
    }
  }
  void operator()(const JobRescheduleRequested& event) const {
    v1::JobRescheduleRequestedEvent* proto =
        out->mutable_job_reschedule_requested();
    proto->set_job_id(event.job_id);
    proto->set_requested(event.requested);
    proto->set_send_budget(event.send_budget);
  }
  void operator()(const JobRescheduled& event) const {
    v1::JobRescheduledEvent* proto = out->mutable_job_rescheduled();
    proto->set_job_id(event.job_id);
    proto->set_schedule(event.schedule);
    proto->set_schedule_id(event.schedule_id);
    proto->set_requested(event.requested);
    proto->set_send_budget(event.send_budget);
    proto->set_transport(event.transport);
    AddAll(event.edges, proto->mutable_edges());
    for (int64_t bytes : event.receive_pool_bytes) {
      proto->add_receive_pool_bytes(bytes);
    }
  }
  void operator()(const StepCommitted& event) const {
    v1::StepCommittedEvent* proto = out->mutable_step_committed();
    proto->set_job_id(event.job_id);
    ToProto(event.result, proto->mutable_result());
    for (int64_t busy : event.busy_nanoseconds) {
      proto->add_busy_nanoseconds(busy);
    }
  }
  void operator()(const CheckpointRequested& event) const {
    out->mutable_checkpoint_requested()->set_job_id(event.job_id);
    out->mutable_checkpoint_requested()->set_step(event.step);
  }
  void operator()(const CheckpointStored& event) const {
    v1::CheckpointStoredEvent* proto = out->mutable_checkpoint_stored();
    proto->set_job_id(event.job_id);
    proto->set_step(event.step);
    proto->set_path(event.path);
  }
  void operator()(const CheckpointFailed& event) const {
    v1::CheckpointFailedEvent* proto = out->mutable_checkpoint_failed();
    proto->set_job_id(event.job_id);
    proto->set_step(event.step);
    proto->set_message(event.message);
  }
  void operator()(const JobRecovering& event) const {
    v1::JobRecoveringEvent* proto = out->mutable_job_recovering();
    proto->set_job_id(event.job_id);
    ToProto(event.cause, proto->mutable_cause());
    AddAll(event.victims, proto->mutable_victims());
    proto->set_reason(event.reason);
  }
  void operator()(const JobRewound& event) const {
    v1::JobRewoundEvent* proto = out->mutable_job_rewound();
    proto->set_job_id(event.job_id);
    proto->set_step(event.step);
    proto->set_checkpoint(event.checkpoint);
  }
  void operator()(const JobFailing& event) const {
    v1::JobFailingEvent* proto = out->mutable_job_failing();
    proto->set_job_id(event.job_id);
    ToProto(event.cause, proto->mutable_cause());
    AddAll(event.victims, proto->mutable_victims());
    proto->set_reason(event.reason);
  }
  void operator()(const JobFailed& event) const {
    out->mutable_job_failed()->set_job_id(event.job_id);
  }
  void operator()(const JobCancelRequested& event) const {
    out->mutable_job_cancel_requested()->set_job_id(event.job_id);
    out->mutable_job_cancel_requested()->set_reason(event.reason);
  }
  void operator()(const JobCancelled& event) const {
    out->mutable_job_cancelled()->set_job_id(event.job_id);
    out->mutable_job_cancelled()->set_reason(event.reason);
  }
  void operator()(const JobSucceeded& event) const {
    v1::JobSucceededEvent* proto = out->mutable_job_succeeded();
    proto->set_job_id(event.job_id);
    AddAll(event.parameters, proto->mutable_parameters());
    proto->set_parameters_sha256(event.parameters_sha256);
    if (event.evaluation_loss.has_value()) {
      proto->set_evaluation_loss(*event.evaluation_loss);
    }
  }
  void operator()(const JobForgotten& event) const {
    out->mutable_job_forgotten()->set_job_id(event.job_id);
  }
};

// ---- bytes to events --------------------------------------------------------

WorkerRegistered Read(const v1::WorkerRecord& proto) {
  WorkerRegistered event;
  event.worker = proto.worker();
  event.incarnation = Incarnation(proto.incarnation());
  event.host = proto.host();
  event.process_id = proto.process_id();
  event.device = proto.device();
  event.version = proto.version();
  event.torch_version = proto.torch_version();
  event.peer_address = proto.peer_address();
  return event;
}

WorkerReleased Read(const v1::WorkerReleasedEvent& proto) {
  WorkerReleased event;
  event.worker = proto.worker();
  event.job_id = proto.job_id();
  if (proto.has_memory()) event.memory = proto.memory();
  event.finished = proto.finished();
  event.parameters = Copies(proto.parameters());
  event.evaluation_losses = ToVector<v1::LossSumRecord, MicrobatchLossSum>(
      proto.evaluation_losses(), &FromProto);
  return event;
}

JobPlanned Read(const v1::JobPlannedEvent& proto) {
  JobPlanned event;
  event.job_id = proto.job_id();
  event.schedule = proto.schedule();
  event.schedule_id = proto.schedule_id();
  event.stages =
      ToVector<v1::StagePlanRecord, StagePlan>(proto.stages(), &FromProto);
  event.first_step = proto.first_step();
  event.checkpoint = proto.checkpoint();
  if (proto.has_loss_scale()) event.loss_scale = proto.loss_scale();
  return event;
}

JobReplanned Read(const v1::JobReplannedEvent& proto) {
  JobReplanned event;
  event.job_id = proto.job_id();
  event.schedule = proto.schedule();
  event.schedule_id = proto.schedule_id();
  event.stages =
      ToVector<v1::StagePlanRecord, StagePlan>(proto.stages(), &FromProto);
  event.profile = proto.profile();
  return event;
}

MemoryPredicted Read(const v1::MemoryPredictedEvent& proto) {
  MemoryPredicted event;
  event.job_id = proto.job_id();
  event.workers.assign(proto.workers().begin(), proto.workers().end());
  return event;
}

JobRescheduled Read(const v1::JobRescheduledEvent& proto) {
  JobRescheduled event;
  event.job_id = proto.job_id();
  event.schedule = proto.schedule();
  event.schedule_id = proto.schedule_id();
  event.requested = proto.requested();
  event.send_budget = proto.send_budget();
  event.transport = proto.transport();
  event.edges = Copies(proto.edges());
  event.receive_pool_bytes.assign(proto.receive_pool_bytes().begin(),
                                  proto.receive_pool_bytes().end());
  return event;
}

JobRunning Read(const v1::JobRunningEvent& proto) {
  JobRunning event;
  event.job_id = proto.job_id();
  event.transport = proto.transport();
  event.edges = Copies(proto.edges());
  event.receive_pool_bytes.assign(proto.receive_pool_bytes().begin(),
                                  proto.receive_pool_bytes().end());
  return event;
}

StepCommitted Read(const v1::StepCommittedEvent& proto) {
  StepCommitted event;
  event.job_id = proto.job_id();
  event.result = FromProto(proto.result());
  event.busy_nanoseconds.assign(proto.busy_nanoseconds().begin(),
                                proto.busy_nanoseconds().end());
  return event;
}

JobSucceeded Read(const v1::JobSucceededEvent& proto) {
  JobSucceeded event;
  event.job_id = proto.job_id();
  event.parameters = Copies(proto.parameters());
  event.parameters_sha256 = proto.parameters_sha256();
  if (proto.has_evaluation_loss()) {
    event.evaluation_loss = proto.evaluation_loss();
  }
  return event;
}

// JobFailing or JobRecovering.
template <typename Failure, typename Proto>
Failure ReadFailure(const Proto& proto) {
  Failure event;
  event.job_id = proto.job_id();
  event.cause = FromProto(proto.cause());
  event.victims = Copies(proto.victims());
  event.reason = proto.reason();
  return event;
}

absl::StatusOr<EventBody> ReadBody(const v1::JournalEvent& proto) {
  switch (proto.body_case()) {
    case v1::JournalEvent::kCoordinatorStarted:
      return CoordinatorStarted{Term(proto.coordinator_started().term())};
    case v1::JournalEvent::kWorkerRegistered:
      return Read(proto.worker_registered());
    case v1::JournalEvent::kWorkerSuspected:
      return WorkerSuspected{proto.worker_suspected().worker(),
                             proto.worker_suspected().reason()};
    case v1::JournalEvent::kWorkerAnswered:
      return WorkerAnswered{proto.worker_answered().worker()};
    case v1::JournalEvent::kWorkerLost:
      return WorkerLost{proto.worker_lost().worker(),
                        proto.worker_lost().reason()};
    case v1::JournalEvent::kWorkerReleased:
      return Read(proto.worker_released());
    case v1::JournalEvent::kJobSubmitted:
      return JobSubmitted{
          proto.job_submitted().job_id(), proto.job_submitted().request_id(),
          proto.job_submitted().spec(), proto.job_submitted().resume()};
    case v1::JournalEvent::kJobPlanning:
      return JobPlanning{proto.job_planning().job_id()};
    case v1::JournalEvent::kJobPlanned:
      return Read(proto.job_planned());
    case v1::JournalEvent::kJobRefused:
      return JobRefused{proto.job_refused().job_id(),
                        proto.job_refused().message()};
    case v1::JournalEvent::kJobWaiting:
      return JobWaiting{proto.job_waiting().job_id(),
                        proto.job_waiting().reason()};
    case v1::JournalEvent::kJobPlaced:
      return JobPlaced{proto.job_placed().job_id(),
                       Epoch(proto.job_placed().epoch()),
                       Copies(proto.job_placed().workers())};
    case v1::JournalEvent::kJobRunning:
      return Read(proto.job_running());
    case v1::JournalEvent::kStepCommitted:
      return Read(proto.step_committed());
    case v1::JournalEvent::kCheckpointRequested:
      return CheckpointRequested{proto.checkpoint_requested().job_id(),
                                 proto.checkpoint_requested().step()};
    case v1::JournalEvent::kCheckpointStored:
      return CheckpointStored{proto.checkpoint_stored().job_id(),
                              proto.checkpoint_stored().step(),
                              proto.checkpoint_stored().path()};
    case v1::JournalEvent::kCheckpointFailed:
      return CheckpointFailed{proto.checkpoint_failed().job_id(),
                              proto.checkpoint_failed().step(),
                              proto.checkpoint_failed().message()};
    case v1::JournalEvent::kJobRecovering:
      return ReadFailure<JobRecovering>(proto.job_recovering());
    case v1::JournalEvent::kJobRewound:
      return JobRewound{proto.job_rewound().job_id(),
                        proto.job_rewound().step(),
                        proto.job_rewound().checkpoint()};
    case v1::JournalEvent::kJobFailing:
      return ReadFailure<JobFailing>(proto.job_failing());
    case v1::JournalEvent::kJobFailed:
      return JobFailed{proto.job_failed().job_id()};
    case v1::JournalEvent::kJobCancelRequested:
      return JobCancelRequested{proto.job_cancel_requested().job_id(),
                                proto.job_cancel_requested().reason()};
    case v1::JournalEvent::kJobCancelled:
      return JobCancelled{proto.job_cancelled().job_id(),
                          proto.job_cancelled().reason()};
    case v1::JournalEvent::kJobSucceeded:
      return Read(proto.job_succeeded());
    case v1::JournalEvent::kMemoryPredicted:
      return Read(proto.memory_predicted());
    case v1::JournalEvent::kJobReplanned:
      return Read(proto.job_replanned());
    case v1::JournalEvent::kJobRescheduleRequested:
      return JobRescheduleRequested{
          proto.job_reschedule_requested().job_id(),
          proto.job_reschedule_requested().requested(),
          proto.job_reschedule_requested().send_budget()};
    case v1::JournalEvent::kJobRescheduled:
      return Read(proto.job_rescheduled());
    case v1::JournalEvent::kJobForgotten:
      return JobForgotten{proto.job_forgotten().job_id()};
    case v1::JournalEvent::BODY_NOT_SET:
      break;
  }
  return absl::DataLossError("an event of a kind that is not known");
}

}  // namespace

void ToProto(const StagePlan& stage, v1::StagePlanRecord* proto) {
  proto->set_layer_begin(stage.layer_begin);
  proto->set_layer_end(stage.layer_end);
  proto->set_worker(stage.worker);
  proto->set_output_bytes(stage.output_bytes);
}

StagePlan FromProto(const v1::StagePlanRecord& proto) {
  StagePlan stage;
  stage.layer_begin = proto.layer_begin();
  stage.layer_end = proto.layer_end();
  stage.worker = proto.worker();
  stage.output_bytes = proto.output_bytes();
  return stage;
}

void ToProto(const StepRecord& step, v1::StepRecord* proto) {
  proto->set_step(step.step);
  proto->set_loss(step.loss);
  proto->set_grad_norm(step.grad_norm);
  proto->set_learning_rate(step.learning_rate);
  proto->set_seconds(step.seconds);
  proto->set_compute_seconds(step.compute_seconds);
  proto->set_tokens_per_second(step.tokens_per_second);
  proto->set_skipped(step.skipped);
  if (step.evaluation_loss.has_value()) {
    proto->set_evaluation_loss(*step.evaluation_loss);
  }
}

StepRecord FromProto(const v1::StepRecord& proto) {
  StepRecord step;
  step.step = proto.step();
  step.loss = proto.loss();
  step.grad_norm = proto.grad_norm();
  step.learning_rate = proto.learning_rate();
  step.seconds = proto.seconds();
  step.compute_seconds = proto.compute_seconds();
  step.tokens_per_second = proto.tokens_per_second();
  step.skipped = proto.skipped();
  if (proto.has_evaluation_loss()) {
    step.evaluation_loss = proto.evaluation_loss();
  }
  return step;
}

void ToProto(const MicrobatchLossSum& loss, v1::LossSumRecord* proto) {
  proto->set_microbatch(loss.microbatch);
  proto->set_loss_sum(loss.loss_sum);
}

MicrobatchLossSum FromProto(const v1::LossSumRecord& proto) {
  return {proto.microbatch(), proto.loss_sum()};
}

void ToProto(const FailureCause& cause, v1::CauseRecord* proto) {
  proto->set_kind(static_cast<int32_t>(cause.kind));
  proto->set_stage(cause.stage);
  proto->set_worker(cause.worker);
  proto->set_action(cause.action);
  proto->set_microbatch(cause.microbatch);
  proto->set_step(cause.step);
  proto->set_message(cause.message);
}

FailureCause FromProto(const v1::CauseRecord& proto) {
  FailureCause cause;
  cause.kind = static_cast<FailureKind>(proto.kind());
  cause.stage = proto.stage();
  cause.worker = proto.worker();
  cause.action = proto.action();
  cause.microbatch = proto.microbatch();
  cause.step = proto.step();
  cause.message = proto.message();
  return cause;
}

void ToProto(const Event& event, v1::JournalEvent* proto) {
  proto->set_at_nanoseconds(absl::ToUnixNanos(event.at));
  std::visit(Writer{proto}, event.body);
}

absl::StatusOr<Event> FromProto(const v1::JournalEvent& proto) {
  absl::StatusOr<EventBody> body = ReadBody(proto);
  if (!body.ok()) return body.status();
  Event event;
  event.at = absl::FromUnixNanos(proto.at_nanoseconds());
  event.body = *std::move(body);
  return event;
}

}  // namespace stagecoach::coordinator
