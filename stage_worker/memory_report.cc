#include "stage_worker/memory_report.h"

namespace stagecoach::worker {
namespace {

void ToProto(const memory::Gauge& gauge, v1::Gauge* proto) {
  proto->set_current(gauge.current);
  proto->set_peak(gauge.peak);
  proto->set_allocated(gauge.allocated);
  proto->set_freed(gauge.freed);
}

void ToProto(const memory::StageLedgerStats& stage, v1::StageMemory* proto) {
  proto->set_sent_bytes(stage.sent_bytes);
  proto->set_released_bytes(stage.released_bytes);
  proto->set_retained_bytes(stage.retained_bytes);
  proto->set_discarded_bytes(stage.discarded_bytes);
  proto->set_pending_bytes(stage.pending_bytes);
  proto->set_outputs_held_bytes(stage.held_bytes);
  proto->set_outputs_held_peak_bytes(stage.held_peak_bytes);
  for (const memory::RetainedBy& retained : stage.retained_by) {
    v1::RetainedBytes* entry = proto->add_retained_by();
    entry->set_op(retained.op);
    entry->set_bytes(retained.bytes);
  }
}

void StagesToProto(const PlacementMemory& memory, v1::WorkerMemory* proto) {
  for (StageIndex stage : memory.stages) {
    v1::StageMemory* entry = proto->add_stages();
    entry->set_stage(stage.value());
    if (auto it = memory.ledger.stages.find(stage);
        it != memory.ledger.stages.end()) {
      ToProto(it->second, entry);
    }
    if (auto it = memory.allocator.stage_activation_bytes.find(stage);
        it != memory.allocator.stage_activation_bytes.end()) {
      entry->set_activation_bytes(it->second);
    }
  }
}

void LedgerToProto(const memory::LedgerStats& ledger, v1::WorkerMemory* proto) {
  v1::PendingAcknowledgement* pending =
      proto->mutable_pending_acknowledgement();
  pending->set_transfers(ledger.pending_transfers);
  pending->set_bytes(ledger.pending_bytes);
  pending->set_oldest_seconds(absl::ToDoubleSeconds(ledger.oldest_pending));
  v1::AcknowledgementCounters* counters = proto->mutable_acknowledgements();
  counters->set_accepted(ledger.acknowledgements.accepted);
  counters->set_duplicate(ledger.acknowledgements.duplicate);
  counters->set_stale_epoch(ledger.acknowledgements.stale_epoch);
  counters->set_unknown(ledger.acknowledgements.unknown);
  proto->set_outputs_held_peak_bytes(ledger.held_peak_bytes);
  proto->set_retained_now_bytes(ledger.retained_now_bytes);
}

void TrafficToProto(const LinkTraffic& traffic, v1::WorkerMemory* proto) {
  for (const EdgeTraffic& edge : traffic.edges) {
    v1::EdgeTraffic* entry = proto->add_edges();
    entry->set_edge(edge.edge);
    entry->set_transport(edge.transport);
    entry->set_transfers(edge.transfers);
    entry->set_in_place(edge.in_place);
  }
  v1::LinkCounters* link = proto->mutable_link();
  link->set_reconnections(traffic.link.reconnections);
  link->set_resent_transfers(traffic.link.resent_transfers);
  link->set_duplicate_transfers(traffic.link.duplicate_transfers);
  link->set_duplicate_acknowledgements(traffic.link.duplicate_acknowledgements);
  link->set_refused(traffic.link.refused());
}

}  // namespace

void ToProto(const std::string& worker, const PlacementMemory& memory,
             v1::WorkerMemory* proto) {
  proto->set_worker(worker);
  proto->set_step(memory.step);
  ToProto(memory.allocator.allocated_bytes, proto->mutable_allocated_bytes());
  ToProto(memory.allocator.reserved_bytes, proto->mutable_reserved_bytes());
  ToProto(memory.allocator.active_bytes, proto->mutable_active_bytes());
  for (int i = 0; i < memory::kCategories; ++i) {
    v1::CategoryBytes* category = proto->add_categories();
    category->set_category(
        memory::CategoryName(static_cast<memory::Category>(i)));
    ToProto(memory.allocator.categories[static_cast<size_t>(i)],
            category->mutable_bytes());
  }
  StagesToProto(memory, proto);
  LedgerToProto(memory.ledger, proto);
  proto->set_receive_pool_bytes(memory.receive_pool_bytes);
  TrafficToProto(memory.traffic, proto);
}

}  // namespace stagecoach::worker
