#include "client/output/prediction_output.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/memory_category.h"

namespace stagecoach::client {
namespace {

constexpr double kTolerance = 0.01;

int64_t CategoryOf(const v1::BytesByCategory& bytes, int category) {
  return category < bytes.categories_size() ? bytes.categories(category) : 0;
}

Json CategoryJson(int64_t low, int64_t high) {
  Json json;
  json["predicted_peak_bytes"] = high;
  json["predicted_low_bytes"] = low;
  return json;
}

const char* NameOf(int category) {
  return MemoryCategoryName(static_cast<MemoryCategory>(category));
}

// How far `measured` lies outside the interval; 0 within it.
int64_t Outside(int64_t low, int64_t high, int64_t measured) {
  return std::max({int64_t{0}, measured - high, low - measured});
}

bool Surprises(const v1::JobWorker& worker, bool succeeded) {
  const auto measured = static_cast<double>(worker.measured().total());
  const auto low = static_cast<double>(worker.predicted().low().total());
  const auto high = static_cast<double>(worker.predicted().high().total());
  return measured > high * (1 + kTolerance) ||
         (succeeded && measured < low * (1 - kTolerance));
}

std::string WarningOf(const v1::JobWorker& worker) {
  const v1::BytesByCategory& low = worker.predicted().low();
  const v1::BytesByCategory& high = worker.predicted().high();
  int furthest = 0;
  int64_t most = -1;
  for (int i = 0; i < kMemoryCategories; ++i) {
    const int64_t outside = Outside(CategoryOf(low, i), CategoryOf(high, i),
                                    CategoryOf(worker.measured(), i));
    if (outside <= most) continue;
    most = outside;
    furthest = i;
  }
  return absl::StrCat(
      "worker ", worker.worker(), ": the measured peak of ",
      FormatByteSize(worker.measured().total()), " is outside the predicted ",
      IntervalText(low.total(), high.total()), "; furthest off is ",
      NameOf(furthest), " with ",
      FormatByteSize(CategoryOf(worker.measured(), furthest)), " for ",
      IntervalText(CategoryOf(low, furthest), CategoryOf(high, furthest)));
}

}  // namespace

void AddPrediction(const job::MemoryInterval& interval, Json* worker) {
  (*worker)["predicted_peak_bytes"] = interval.high.total;
  (*worker)["predicted_low_bytes"] = interval.low.total;
  for (int i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    (*worker)["categories"][NameOf(i)] =
        CategoryJson(interval.low.Of(category), interval.high.Of(category));
  }
}

void AddPrediction(const v1::JobWorker& worker, Json* json) {
  if (!worker.has_predicted()) return;
  const v1::BytesByCategory& low = worker.predicted().low();
  const v1::BytesByCategory& high = worker.predicted().high();
  (*json)["predicted_peak_bytes"] = high.total();
  (*json)["predicted_low_bytes"] = low.total();
  for (int i = 0; i < kMemoryCategories; ++i) {
    Json category = CategoryJson(CategoryOf(low, i), CategoryOf(high, i));
    if (worker.has_measured()) {
      category["measured_peak_bytes"] = CategoryOf(worker.measured(), i);
    }
    (*json)["categories"][NameOf(i)] = std::move(category);
  }
}

std::string IntervalText(int64_t low, int64_t high) {
  if (low == high) return FormatByteSize(high);
  return absl::StrCat(FormatByteSize(low), " to ", FormatByteSize(high));
}

std::string PredictionText(const v1::JobWorker& worker) {
  if (!worker.has_predicted()) return "";
  return IntervalText(worker.predicted().low().total(),
                      worker.predicted().high().total());
}

std::vector<std::string> MemoryWarnings(const v1::Job& job) {
  std::vector<std::string> warnings;
  const bool succeeded = job.state() == v1::JOB_STATE_SUCCEEDED;
  for (const v1::JobWorker& worker : job.workers()) {
    if (!worker.has_predicted() || !worker.has_measured()) continue;
    if (Surprises(worker, succeeded)) warnings.push_back(WarningOf(worker));
  }
  return warnings;
}

}  // namespace stagecoach::client
