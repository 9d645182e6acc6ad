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

template <typename Gauges, typename Repeated>
void CategoriesToProto(const Gauges& categories, Repeated* proto) {
  for (int i = 0; i < memory::kCategories; ++i) {
    v1::CategoryBytes* category = proto->Add();
    category->set_category(
        memory::CategoryName(static_cast<memory::Category>(i)));
    ToProto(categories[static_cast<size_t>(i)], category->mutable_bytes());
  }
}

void ToProto(const memory::DeviceFigures& device, v1::DeviceMemory* proto) {
  ToProto(device.blocks.requested_bytes, proto->mutable_requested_bytes());
  ToProto(device.blocks.active_bytes, proto->mutable_active_bytes());
  ToProto(device.blocks.reserved_bytes, proto->mutable_reserved_bytes());
  CategoriesToProto(device.blocks.categories, proto->mutable_categories());
  proto->set_used_bytes(device.memory.used);
  proto->set_communicator_bytes(device.memory.communicator);
  proto->set_context_bytes(device.memory.context);
  proto->set_other_bytes(device.memory.other());
  proto->set_out_of_memory(device.blocks.out_of_memory);
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
  CategoriesToProto(memory.allocator.categories, proto->mutable_categories());
  if (memory.device.has_value()) {
    ToProto(*memory.device, proto->mutable_device());
  }
  StagesToProto(memory, proto);
  LedgerToProto(memory.ledger, proto);
  proto->set_receive_pool_bytes(memory.receive_pool_bytes);
  TrafficToProto(memory.traffic, proto);
}

}  // namespace stagecoach::worker
