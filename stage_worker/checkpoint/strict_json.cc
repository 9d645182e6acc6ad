#include "stage_worker/checkpoint/strict_json.h"

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::checkpoint {
namespace {

constexpr size_t kMostLevels = 8;

// Looks at a document without building it.
class Inspector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/,
                    const string_t& /*text*/) override {
    return true;
  }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*elements*/) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t /*elements*/) override { return Enter(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    return Refuse(absl::StrCat("the key \"", name, "\" stands twice"));
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return Refuse(absl::StrCat("no valid JSON at byte ", position));
  }

  const std::string& finding() const { return finding_; }

 private:
  bool Enter() {
    keys_.emplace_back();
    if (keys_.size() <= kMostLevels) return true;
    return Refuse(absl::StrCat("nested deeper than ", kMostLevels, " levels"));
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }
  bool Refuse(std::string finding) {
    finding_ = std::move(finding);
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // of each open object or array
  std::string finding_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text) {
  Inspector inspector;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &inspector)) {
    return absl::InvalidArgumentError(inspector.finding());
  }
  return nlohmann::json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                               /*allow_exceptions=*/false);
}

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace stagecoach::checkpoint
