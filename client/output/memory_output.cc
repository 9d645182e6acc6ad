#include "client/output/memory_output.h"

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/bytes.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {
namespace {

// As memory/ names them, in the order in which tables show them.
constexpr std::array<absl::string_view, 8> kCategories = {
    "parameter", "gradient",     "optimizer", "activation",
    "wire_send", "wire_receive", "workspace", "other"};

// ---- JSON -------------------------------------------------------------------

Json GaugeJson(const v1::Gauge& gauge) {
  Json json;
  json["current"] = gauge.current();
  json["peak"] = gauge.peak();
  json["allocated"] = gauge.allocated();
  json["freed"] = gauge.freed();
  return json;
}

// Of a worker, or of its device.
template <typename Memory>
Json CategoriesJson(const Memory& memory) {
  Json json = Json::object();
  for (const v1::CategoryBytes& category : memory.categories()) {
    Json entry;
    entry["current"] = category.bytes().current();
    entry["peak"] = category.bytes().peak();
    json[category.category()] = std::move(entry);
  }
  return json;
}

Json StageJson(const v1::StageMemory& stage) {
  Json json;
  json["stage"] = stage.stage();
  json["activation_bytes"] = stage.activation_bytes();
  json["sent_bytes"] = stage.sent_bytes();
  json["released_bytes"] = stage.released_bytes();
  json["retained_bytes"] = stage.retained_bytes();
  json["discarded_bytes"] = stage.discarded_bytes();
  json["pending_bytes"] = stage.pending_bytes();
  json["retained"] = Json::array();
  for (const v1::RetainedBytes& retained : stage.retained_by()) {
    Json entry;
    entry["op"] = retained.op();
    entry["bytes"] = retained.bytes();
    json["retained"].push_back(std::move(entry));
  }
  json["outputs_held_bytes"] = stage.outputs_held_bytes();
  json["outputs_held_peak_bytes"] = stage.outputs_held_peak_bytes();
  return json;
}

Json PendingJson(const v1::PendingAcknowledgement& pending) {
  Json json;
  json["transfers"] = pending.transfers();
  json["bytes"] = pending.bytes();
  json["oldest_seconds"] = pending.oldest_seconds();
  return json;
}

Json AcknowledgementsJson(const v1::AcknowledgementCounters& counters) {
  Json json;
  json["accepted"] = counters.accepted();
  json["duplicate"] = counters.duplicate();
  json["stale_epoch"] = counters.stale_epoch();
  json["unknown"] = counters.unknown();
  return json;
}

// Freed memory that the worker keeps for its next allocations.
bool KnowsCached(const v1::WorkerMemory& worker) {
  return worker.has_reserved_bytes() && worker.has_active_bytes();
}
int64_t CachedBytes(const v1::WorkerMemory& worker) {
  return worker.reserved_bytes().current() - worker.active_bytes().current();
}

Json DeviceJson(const v1::DeviceMemory& device) {
  Json json;
  json["requested_bytes"] = GaugeJson(device.requested_bytes());
  json["active_bytes"] = GaugeJson(device.active_bytes());
  json["reserved_bytes"] = GaugeJson(device.reserved_bytes());
  json["categories"] = CategoriesJson(device);
  json["used_bytes"] = device.used_bytes();
  json["communicator_bytes"] = device.communicator_bytes();
  json["context_bytes"] = device.context_bytes();
  json["other_bytes"] = device.other_bytes();
  json["out_of_memory"] = device.out_of_memory();
  return json;
}

Json WorkerJson(const v1::WorkerMemory& worker) {
  Json json;
  json["worker"] = worker.worker();
  json["step"] = worker.step() < 0 ? Json(nullptr) : Json(worker.step());
  if (worker.has_allocated_bytes()) {
    json["allocated_bytes"] = GaugeJson(worker.allocated_bytes());
  }
  if (worker.has_reserved_bytes()) {
    json["reserved_bytes"] = GaugeJson(worker.reserved_bytes());
  }
  if (worker.has_active_bytes()) {
    json["active_bytes"] = GaugeJson(worker.active_bytes());
  }
  if (KnowsCached(worker)) json["cached_bytes"] = CachedBytes(worker);
  AddAnswerTime(worker, &json);
  json["categories"] = CategoriesJson(worker);
  if (worker.has_device()) json["device"] = DeviceJson(worker.device());
  json["stages"] = Json::array();
  for (const v1::StageMemory& stage : worker.stages()) {
    json["stages"].push_back(StageJson(stage));
  }
  json["pending_acknowledgement"] =
      PendingJson(worker.pending_acknowledgement());
  json["acknowledgements"] = AcknowledgementsJson(worker.acknowledgements());
  json["outputs_held_peak_bytes"] = worker.outputs_held_peak_bytes();
  json["receive_pool_bytes"] = worker.receive_pool_bytes();
  json["retained_now_bytes"] = worker.retained_now_bytes();
  return json;
}

// ---- text -------------------------------------------------------------------

std::string Bytes(bool known, int64_t bytes) {
  return known ? FormatByteSize(bytes) : "-";
}

std::string MemoryTable(const v1::GetMemoryStatsResponse& response) {
  Table table({Left("worker"), Right("step"), Right("allocated"), Right("peak"),
               Right("reserved"), Right("cached"), Right("receive pool"),
               Right("retained now")});
  int64_t allocated = 0;
  int64_t pool = 0;
  int64_t retained = 0;
  for (const v1::WorkerMemory& worker : response.workers()) {
    allocated += worker.allocated_bytes().current();
    pool += worker.receive_pool_bytes();
    retained += worker.retained_now_bytes();
    table.AddRow(
        {worker.worker(), worker.step() < 0 ? "-" : absl::StrCat(worker.step()),
         Bytes(worker.has_allocated_bytes(),
               worker.allocated_bytes().current()),
         Bytes(worker.has_allocated_bytes(), worker.allocated_bytes().peak()),
         Bytes(worker.has_reserved_bytes(), worker.reserved_bytes().current()),
         Bytes(KnowsCached(worker), CachedBytes(worker)),
         FormatByteSize(worker.receive_pool_bytes()),
         FormatByteSize(worker.retained_now_bytes())});
  }
  table.AddTotal({"total", "", FormatByteSize(allocated), "", "", "",
                  FormatByteSize(pool), FormatByteSize(retained)});
  return table.Render();
}

// Bytes of one category now; -1 if the worker does not report it.
int64_t CurrentOf(const v1::WorkerMemory& worker, absl::string_view category) {
  for (const v1::CategoryBytes& entry : worker.categories()) {
    if (entry.category() == category) return entry.bytes().current();
  }
  return -1;
}

std::string CategoriesTable(const v1::GetMemoryStatsResponse& response) {
  std::vector<Table::Column> columns = {Left("worker")};
  for (const absl::string_view category : kCategories) {
    columns.push_back(Right(std::string(category)));
  }
  Table table(std::move(columns));
  std::array<int64_t, kCategories.size()> totals = {};
  for (const v1::WorkerMemory& worker : response.workers()) {
    std::vector<std::string> row = {worker.worker()};
    for (size_t i = 0; i < kCategories.size(); ++i) {
      const int64_t bytes = CurrentOf(worker, kCategories[i]);
      if (bytes > 0) totals[i] += bytes;
      row.push_back(Bytes(bytes >= 0, bytes));
    }
    table.AddRow(std::move(row));
  }
  std::vector<std::string> total = {"total"};
  for (const int64_t bytes : totals) total.push_back(FormatByteSize(bytes));
  table.AddTotal(std::move(total));
  return table.Render();
}

std::string RetainedBy(const v1::StageMemory& stage) {
  return absl::StrJoin(stage.retained_by(), ", ",
                       [](std::string* out, const v1::RetainedBytes& entry) {
                         absl::StrAppend(out, entry.op(), " ",
                                         FormatByteSize(entry.bytes()));
                       });
}

void AddTo(const v1::StageMemory& stage, v1::StageMemory* total) {
  total->set_activation_bytes(total->activation_bytes() +
                              stage.activation_bytes());
  total->set_sent_bytes(total->sent_bytes() + stage.sent_bytes());
  total->set_released_bytes(total->released_bytes() + stage.released_bytes());
  total->set_retained_bytes(total->retained_bytes() + stage.retained_bytes());
  total->set_discarded_bytes(total->discarded_bytes() +
                             stage.discarded_bytes());
  total->set_pending_bytes(total->pending_bytes() + stage.pending_bytes());
  total->set_outputs_held_bytes(total->outputs_held_bytes() +
                                stage.outputs_held_bytes());
}

std::vector<std::string> OutputCells(const v1::StageMemory& stage) {
  return {FormatByteSize(stage.activation_bytes()),
          FormatByteSize(stage.sent_bytes()),
          FormatByteSize(stage.released_bytes()),
          FormatByteSize(stage.retained_bytes()),
          FormatByteSize(stage.discarded_bytes()),
          FormatByteSize(stage.pending_bytes()),
          FormatByteSize(stage.outputs_held_bytes())};
}

std::string OutputsTable(const v1::GetMemoryStatsResponse& response) {
  Table table({Left("worker"), Right("stage"), Right("activations"),
               Right("sent"), Right("released"), Right("retained"),
               Right("discarded"), Right("pending"), Right("held"),
               Right("held peak"), Left("retained by")});
  v1::StageMemory total;
  for (const v1::WorkerMemory& worker : response.workers()) {
    for (const v1::StageMemory& stage : worker.stages()) {
      AddTo(stage, &total);
      std::vector<std::string> row = OutputCells(stage);
      row.insert(row.begin(), {worker.worker(), absl::StrCat(stage.stage())});
      row.push_back(FormatByteSize(stage.outputs_held_peak_bytes()));
      row.push_back(RetainedBy(stage));
      table.AddRow(std::move(row));
    }
  }
  std::vector<std::string> row = OutputCells(total);
  row.insert(row.begin(), {"total", ""});
  table.AddTotal(std::move(row));
  return table.Render();
}

std::string AcknowledgementsTable(const v1::GetMemoryStatsResponse& response) {
  Table table({Left("worker"), Right("unacknowledged"), Right("bytes"),
               Right("oldest"), Right("accepted"), Right("duplicate"),
               Right("stale epoch"), Right("unknown")});
  std::array<int64_t, 6> totals = {};
  for (const v1::WorkerMemory& worker : response.workers()) {
    const v1::PendingAcknowledgement& pending =
        worker.pending_acknowledgement();
    const v1::AcknowledgementCounters& counters = worker.acknowledgements();
    const std::array<int64_t, 6> row = {
        pending.transfers(),  pending.bytes(),        counters.accepted(),
        counters.duplicate(), counters.stale_epoch(), counters.unknown()};
    for (size_t i = 0; i < row.size(); ++i) totals[i] += row[i];
    table.AddRow({worker.worker(), FormatCount(row[0]), FormatByteSize(row[1]),
                  pending.transfers() == 0
                      ? "-"
                      : FormatSeconds(pending.oldest_seconds()),
                  FormatCount(row[2]), FormatCount(row[3]), FormatCount(row[4]),
                  FormatCount(row[5])});
  }
  table.AddTotal({"total", FormatCount(totals[0]), FormatByteSize(totals[1]),
                  "", FormatCount(totals[2]), FormatCount(totals[3]),
                  FormatCount(totals[4]), FormatCount(totals[5])});
  return table.Render();
}

}  // namespace

void AddAnswerTime(const v1::WorkerMemory& worker, Json* json) {
  if (worker.answer_nanoseconds() == 0) return;
  (*json)["answer_microseconds"] =
      static_cast<double>(worker.answer_nanoseconds()) / 1e3;
}

Json MemoryStatsJson(const v1::GetMemoryStatsResponse& response) {
  Json json;
  json["job_id"] = response.job_id();
  json["workers"] = Json::array();
  for (const v1::WorkerMemory& worker : response.workers()) {
    json["workers"].push_back(WorkerJson(worker));
  }
  json["silent_workers"] = Json::array();
  for (const std::string& worker : response.silent_workers()) {
    json["silent_workers"].push_back(worker);
  }
  return json;
}

std::string MemoryStatsText(const v1::GetMemoryStatsResponse& response) {
  std::string text = absl::StrCat("job ", response.job_id(), "\n");
  absl::StrAppend(&text, "\n", MemoryTable(response));
  absl::StrAppend(&text, "\n", CategoriesTable(response));
  absl::StrAppend(&text, "\n", OutputsTable(response));
  absl::StrAppend(&text, "\n", AcknowledgementsTable(response));
  if (!response.silent_workers().empty()) {
    absl::StrAppend(&text, "\nno answer from ",
                    absl::StrJoin(response.silent_workers(), ", "), "\n");
  }
  return text;
}

}  // namespace stagecoach::client
