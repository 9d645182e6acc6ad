#include "job/config_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/suggest.h"

namespace stagecoach::job {
namespace {

// Long values (a list of 80 layers) are cut.
std::string ValueText(const nlohmann::json& value) {
  constexpr size_t kMaxLength = 60;
  // Bytes that are no UTF-8 are replaced: an exception is thrown otherwise.
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxLength) text = text.substr(0, kMaxLength) + "...";
  return text;
}

}  // namespace

bool ConfigReader::IsWritten(const std::string& key) const {
  return object_.find(key) != object_.end();
}

bool ConfigReader::Has(const std::string& key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const nlohmann::json* ConfigReader::Take(const std::string& key) {
  known_.insert(key);
  return Has(key) ? &*object_.find(key) : nullptr;
}

int64_t ConfigReader::Size(const std::string& key, int64_t fallback,
                           int64_t least) {
  const nlohmann::json* const value = Take(key);
  if (value == nullptr) return fallback;
  constexpr int64_t kMax = 1 << 24;
  if (value->is_number_integer()) {
    // Unsigned values above 2^63 read as negative.
    const int64_t size = value->get<int64_t>();
    if (size >= least && size <= kMax) return size;
  }
  Problem(key, absl::StrCat("must be an integer from ", least, " to ", kMax,
                            ", not ", ValueText(*value)));
  return fallback;
}

int64_t ConfigReader::RequiredSize(const std::string& key) {
  if (!Has(key)) Problem(key, "is missing");
  return Size(key, 1);
}

double ConfigReader::Number(const std::string& key, double fallback) {
  const nlohmann::json* const value = Take(key);
  if (value == nullptr) return fallback;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (std::isfinite(number)) return number;
  }
  Problem(key, absl::StrCat("must be a number, not ", ValueText(*value)));
  return fallback;
}

double ConfigReader::PositiveNumber(const std::string& key, double fallback) {
  const double number = Number(key, fallback);
  if (number > 0) return number;
  Problem(key, absl::StrCat("must be more than 0, not ", number));
  return fallback;
}

bool ConfigReader::Flag(const std::string& key, bool fallback) {
  const nlohmann::json* const value = Take(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Problem(key, absl::StrCat("must be true or false, not ", ValueText(*value)));
  return fallback;
}

std::string ConfigReader::Text(const std::string& key,
                               const std::string& fallback) {
  const nlohmann::json* const value = Take(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  Problem(key, absl::StrCat("must be a text, not ", ValueText(*value)));
  return fallback;
}

void ConfigReader::MustBe(const std::string& key, const nlohmann::json& value,
                          const std::string& why) {
  MustBe(key, value, value, why);
}

void ConfigReader::MustBe(const std::string& key, const nlohmann::json& value,
                          const nlohmann::json& absent,
                          const std::string& why) {
  const nlohmann::json* const given = Take(key);
  const nlohmann::json& effective = given == nullptr ? absent : *given;
  if (effective == value) return;
  Problem(key, absl::StrCat(ValueText(effective),
                            given == nullptr ? " (its default)" : "",
                            " is not supported: ", why, "; set it to ",
                            ValueText(value)));
}

void ConfigReader::Ignore(std::initializer_list<const char*> keys) {
  known_.insert(keys.begin(), keys.end());
}

void ConfigReader::Problem(const std::string& key, absl::string_view message) {
  problems_->push_back(absl::StrCat(place_, ": ", key, ": ", message));
}

void ConfigReader::RefuseTheRest() {
  const std::vector<std::string> candidates(known_.begin(), known_.end());
  for (const auto& [key, value] : object_.items()) {
    if (known_.count(key) > 0) continue;
    // As JSON writes it, but for the quotes: it may hold anything.
    const std::string text = ValueText(key);
    const std::string near = DidYouMean(key, candidates);
    Problem(
        text.substr(1, text.size() - 2),
        absl::StrCat("is not known here and may change the model's numbers",
                     near.empty() ? "; remove it only if it does not" : near));
  }
}

}  // namespace stagecoach::job
