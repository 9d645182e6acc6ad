#include "client/testing/sample_messages.h"

#include <string>

namespace stagecoach::client {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

void SetSpec(v1::JobSpec* spec) {
  spec->set_name("tiny");
  spec->mutable_training()->set_steps(2);
  spec->mutable_training()->set_microbatches(8);
  spec->mutable_training()->set_kernels("onednn");
  spec->mutable_pipeline()->set_workers(2);
  spec->mutable_pipeline()->set_stages_per_worker(1);
  spec->mutable_pipeline()->set_send_budget(2);
  spec->mutable_pipeline()->set_release("ack");
}

void AddWorker(const std::string& name, int stage, int64_t mebibytes,
               double idle, v1::Job* job) {
  v1::JobWorker* worker = job->add_workers();
  worker->set_worker(name);
  worker->add_stages(stage);
  worker->set_measured_peak_bytes(mebibytes * kMiB);
  worker->set_outputs_held_peak_bytes(stage == 0 ? 3 * kMiB : 0);
  worker->set_receive_pool_bytes(stage == 0 ? 0 : 2 * kMiB);
  worker->set_idle_ratio(idle);
}

void AddStage(const std::string& worker, int stage, v1::Job* job) {
  v1::JobStage* entry = job->add_stages();
  entry->set_stage(stage);
  entry->set_worker(worker);
  entry->set_layer_begin(stage == 0 ? 0 : 2);
  entry->set_layer_end(stage == 0 ? 2 : 3);
  entry->set_output_bytes(stage == 0 ? kMiB : 0);
  entry->mutable_memory()->set_stage(stage);
}

void SetGauge(int64_t bytes, v1::Gauge* gauge) {
  gauge->set_current(bytes);
  gauge->set_peak(2 * bytes);
  gauge->set_allocated(10 * bytes);
  gauge->set_freed(9 * bytes);
}

void AddCategory(const std::string& name, int64_t bytes,
                 v1::WorkerMemory* worker) {
  v1::CategoryBytes* category = worker->add_categories();
  category->set_category(name);
  SetGauge(bytes, category->mutable_bytes());
}

}  // namespace

v1::StepResult SampleStep(int64_t step, double loss) {
  v1::StepResult result;
  result.set_step(step);
  result.set_loss(loss);
  result.set_grad_norm(1.5);
  result.set_learning_rate(0.00015);
  result.set_seconds(0.25);
  result.set_compute_seconds(0.2);
  result.set_tokens_per_second(2048);
  return result;
}

v1::Job SucceededJob() {
  v1::Job job;
  job.set_id("j-1");
  job.set_name("tiny");
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  job.set_schedule("1f1b");
  job.set_transport("shm");
  job.add_edges("activation 0->1: shm (same host)");
  job.add_edges("gradient 1->0: shm (same host)");
  job.set_release("ack");
  job.set_total_seconds(0.75);
  job.set_parameters_sha256("abc123");
  *job.add_steps() = SampleStep(0, 5.545177459716797);
  *job.add_steps() = SampleStep(1, 0.1);
  AddWorker("w0", 0, 24, 0.125, &job);
  AddWorker("w1", 1, 16, 0.25, &job);
  AddStage("w0", 0, &job);
  v1::StageMemory* memory = job.mutable_stages(0)->mutable_memory();
  memory->set_sent_bytes(16 * kMiB);
  memory->set_released_bytes(12 * kMiB);
  memory->set_retained_bytes(4 * kMiB);
  v1::RetainedBytes* retained = memory->add_retained_by();
  retained->set_op("TanhBackward0");
  retained->set_bytes(4 * kMiB);
  memory->set_outputs_held_peak_bytes(3 * kMiB);
  AddStage("w1", 1, &job);
  v1::ParameterDigest* digest = job.add_parameters();
  digest->set_name("transformer.wte.weight");
  digest->set_dtype("float32");
  digest->add_shape(256);
  digest->add_shape(32);
  digest->set_sha256("aa");
  SetSpec(job.mutable_spec());
  job.set_revision(9);
  return job;
}

v1::Job FailedJob() {
  v1::Job job = SucceededJob();
  job.set_state(v1::JOB_STATE_FAILED);
  job.set_reason("worker w1 is lost");
  job.clear_parameters_sha256();
  job.clear_parameters();
  job.mutable_steps()->RemoveLast();
  v1::FailureCause* cause = job.mutable_cause();
  cause->set_kind(v1::FAILURE_KIND_WORKER_LOST);
  cause->set_stage(1);
  cause->set_worker("w1");
  cause->set_action("1F5");
  cause->set_microbatch(5);
  cause->set_step(1);
  cause->set_message("no heartbeat for 6 s");
  job.add_victims("w0");
  return job;
}

v1::GetMemoryStatsResponse SampleMemoryStats() {
  v1::GetMemoryStatsResponse response;
  response.set_job_id("j-1");
  v1::WorkerMemory* w0 = response.add_workers();
  w0->set_worker("w0");
  w0->set_step(37);
  SetGauge(4 * kMiB, w0->mutable_allocated_bytes());
  SetGauge(8 * kMiB, w0->mutable_reserved_bytes());
  SetGauge(4 * kMiB, w0->mutable_active_bytes());
  AddCategory("parameter", 3 * kMiB, w0);
  AddCategory("activation", kMiB, w0);
  v1::StageMemory* stage = w0->add_stages();
  stage->set_stage(0);
  stage->set_activation_bytes(kMiB);
  stage->set_sent_bytes(16 * kMiB);
  stage->set_released_bytes(10 * kMiB);
  stage->set_retained_bytes(4 * kMiB);
  stage->set_discarded_bytes(kMiB);
  stage->set_pending_bytes(kMiB);
  v1::RetainedBytes* retained = stage->add_retained_by();
  retained->set_op("TanhBackward0");
  retained->set_bytes(4 * kMiB);
  stage->set_outputs_held_bytes(2 * kMiB);
  stage->set_outputs_held_peak_bytes(3 * kMiB);
  w0->mutable_pending_acknowledgement()->set_transfers(1);
  w0->mutable_pending_acknowledgement()->set_bytes(kMiB);
  w0->mutable_pending_acknowledgement()->set_oldest_seconds(0.125);
  w0->mutable_acknowledgements()->set_accepted(1200);
  w0->mutable_acknowledgements()->set_duplicate(1);
  w0->mutable_acknowledgements()->set_stale_epoch(2);
  w0->mutable_acknowledgements()->set_unknown(3);
  w0->set_outputs_held_peak_bytes(3 * kMiB);
  w0->set_receive_pool_bytes(2 * kMiB);
  w0->set_retained_now_bytes(kMiB);
  v1::WorkerMemory* w1 = response.add_workers();
  w1->set_worker("w1");
  w1->set_step(-1);
  SetGauge(kMiB, w1->mutable_allocated_bytes());
  AddCategory("parameter", kMiB, w1);
  response.add_silent_workers("w2");
  return response;
}

v1::ListWorkersResponse SampleWorkers() {
  v1::ListWorkersResponse response;
  v1::WorkerInfo* idle = response.add_workers();
  idle->set_id("w0");
  idle->set_state(v1::WORKER_STATE_IDLE);
  idle->set_incarnation(0xfedcba9876543210);
  idle->set_host("box");
  idle->set_process_id(4242);
  idle->set_device("cpu");
  idle->set_version("0.1.0");
  idle->set_torch_version("2.11.0");
  idle->set_seconds_since_heartbeat(0.25);
  v1::WorkerInfo* busy = response.add_workers();
  *busy = *idle;
  busy->set_id("w1");
  busy->set_state(v1::WORKER_STATE_SUSPECT);
  busy->set_reason("no heartbeat for 2 s");
  busy->set_job_id("j-1");
  busy->add_stages(1);
  busy->add_stages(3);
  busy->add_paths()->set_transport("nccl");
  busy->mutable_paths(0)->set_obstacle("no GPU");
  busy->add_paths()->set_transport("shm");
  return response;
}

}  // namespace stagecoach::client
