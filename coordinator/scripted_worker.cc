#include "coordinator/scripted_worker.h"

#include "absl/strings/str_cat.h"
#include "base/version.h"

namespace stagecoach::coordinator {
namespace {

v1::WorkerMemory Memory(const std::string& name) {
  v1::WorkerMemory memory;
  memory.set_worker(name);
  memory.mutable_allocated_bytes()->set_peak(1000);
  return memory;
}

// A head that costs as much as four layers.
void Measure(const v1::Profile& profile, v1::Profiled* profiled) {
  if (!profile.measure()) return;
  v1::ModelProfile* measured = profiled->mutable_profile();
  for (int64_t i = 0; i < profile.spec().model().layers(); ++i) {
    v1::LayerProfile* layer = measured->add_layers();
    layer->set_forward_seconds(1);
    layer->set_backward_seconds(2);
    layer->set_backward_input_seconds(1);
    layer->set_backward_weight_seconds(1);
  }
  v1::LayerProfile* head = measured->mutable_head();
  head->set_forward_seconds(4);
  head->set_backward_seconds(8);
  head->set_backward_input_seconds(4);
  head->set_backward_weight_seconds(4);
  measured->mutable_embedding();
}

void Prepare(const v1::Assign& assign, int64_t step, v1::Prepared* prepared) {
  prepared->set_step(step);
  prepared->set_all_finite(true);
  if (assign.worker_index() + 1 == assign.peers_size()) {
    for (int i = 0; i < assign.spec().training().microbatches(); ++i) {
      prepared->add_losses()->set_microbatch(i);
      prepared->mutable_losses(i)->set_loss_sum(8);
    }
  }
  prepared->add_norms()->set_global_index(assign.worker_index());
  prepared->mutable_norms(0)->set_squared(4);
}

}  // namespace

v1::WorkerMessage ScriptedRegistration(const std::string& name,
                                       uint64_t incarnation,
                                       const std::string& torch_version) {
  v1::WorkerMessage message;
  message.mutable_fence()->set_incarnation(incarnation);
  v1::Register* registration = message.mutable_register_();
  registration->set_worker(name);
  registration->mutable_version()->set_version(kVersion);
  registration->mutable_version()->set_protocol(kProtocolVersion);
  registration->set_host("host");
  registration->set_process_id(4711);
  registration->set_torch_version(torch_version);
  registration->set_peer_address(absl::StrCat("peer of ", name));
  registration->add_paths()->set_transport("nccl");
  registration->mutable_paths(0)->set_obstacle("no GPU");
  registration->add_paths()->set_transport("shm");
  return message;
}

std::optional<v1::WorkerMessage> ScriptedAnswer(
    const std::string& name, const v1::Assign& assign,
    const v1::CoordinatorMessage& message) {
  v1::WorkerMessage answer;
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kProfile:
      Measure(message.profile(), answer.mutable_profiled());
      return answer;
    case v1::CoordinatorMessage::kReschedule:
    case v1::CoordinatorMessage::kAssign:
      answer.mutable_assigned()->set_receive_pool_bytes(50);
      return answer;
    case v1::CoordinatorMessage::kConnect:
      answer.mutable_connected()->add_edges("0->1 activation: shm");
      return answer;
    case v1::CoordinatorMessage::kStepBegin:
      Prepare(assign, message.step_begin().step(), answer.mutable_prepared());
      return answer;
    case v1::CoordinatorMessage::kStepCommit:
      answer.mutable_applied()->set_step(message.step_commit().step());
      return answer;
    case v1::CoordinatorMessage::kCopyState:
      answer.mutable_state_copied()->set_step(message.copy_state().step());
      return answer;
    case v1::CoordinatorMessage::kFinish: {
      v1::Finished* finished = answer.mutable_finished();
      finished->add_parameters()->set_name(absl::StrCat("parameter of ", name));
      *finished->mutable_memory() = Memory(name);
      return answer;
    }
    case v1::CoordinatorMessage::kAbort:
      *answer.mutable_released()->mutable_memory() = Memory(name);
      return answer;
    case v1::CoordinatorMessage::kMemoryQuery: {
      v1::MemoryReport* report = answer.mutable_memory_report();
      report->set_query(message.memory_query().query());
      report->set_job_id(assign.job_id());
      *report->mutable_memory() = Memory(name);
      return answer;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace stagecoach::coordinator
