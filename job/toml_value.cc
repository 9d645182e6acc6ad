#include "job/toml_value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"
#include "base/status.h"
#include "base/suggest.h"
#include "job/recompute.h"
#include "job/schedule_source.h"
#include "job/words.h"

namespace stagecoach::job {
namespace {

absl::Status Expected(absl::string_view what, const toml::node& node,
                      absl::string_view remedy = "") {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", what, ", got ", TypeName(node),
                   remedy.empty() ? "" : "; ", remedy));
}

// For a number or a boolean that was put in quotes.
std::string WithoutQuotes(const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  double number = 0;
  const bool is_value = text && (absl::SimpleAtod(*text, &number) ||
                                 *text == "true" || *text == "false");
  return is_value ? absl::StrCat("write ", *text, " without quotes") : "";
}

// For a float that stands where an integer should.
std::string WithoutFraction(const toml::node& node) {
  const auto number = node.value_exact<double>();
  if (!number || std::floor(*number) != *number || std::fabs(*number) > 1e15) {
    return WithoutQuotes(node);
  }
  return absl::StrCat("write ", NumberText(*number));
}

absl::Status NotOneOf(const std::string& text,
                      const std::vector<std::string>& choices) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is not one of \"", absl::StrJoin(choices, "\", \""), "\"",
      DidYouMean(text, choices)));
}

std::string Resolve(const std::string& path, const std::string& folder) {
  // An empty path is refused later; it must not become the folder.
  if (path.empty()) return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

// Reads one value into a field of each type.
struct FieldReader {
  const Key& key;
  const toml::node& node;
  const std::string& folder;

  absl::Status operator()(bool* out) const {
    const auto value = node.value_exact<bool>();
    if (!value) return Expected("true or false", node, WithoutQuotes(node));
    *out = *value;
    return absl::OkStatus();
  }

  absl::Status operator()(int64_t* out) const {
    if (key.meaning == Meaning::kByteSize && node.is_string()) {
      SC_ASSIGN_OR_RETURN(*out,
                          ParseByteSize(*node.value_exact<std::string>()));
      return absl::OkStatus();
    }
    const auto value = node.value_exact<int64_t>();
    if (!value) {
      return key.meaning == Meaning::kByteSize
                 ? Expected("a size", node, "write for example \"8GiB\"")
                 : Expected("an integer", node, WithoutFraction(node));
    }
    *out = *value;
    return absl::OkStatus();
  }

  absl::Status operator()(double* out) const { return Number(node, out); }

  absl::Status operator()(std::array<double, 2>* out) const {
    constexpr char kExample[] = "write for example [0.9, 0.95]";
    const toml::array* list = node.as_array();
    if (list == nullptr) return Expected("two numbers", node, kExample);
    if (list->size() != out->size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected two numbers, got ", list->size(), "; ", kExample));
    }
    for (size_t i = 0; i < out->size(); ++i) {
      SC_RETURN_IF_ERROR(Number((*list)[i], &(*out)[i]));
    }
    return absl::OkStatus();
  }

  absl::Status operator()(std::vector<int64_t>* out) const {
    constexpr char kExample[] = "write \"auto\" or for example [2, 3, 2, 1]";
    out->clear();
    if (node.value_exact<std::string>() == "auto") return absl::OkStatus();
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      return Expected("\"auto\" or a list of integers", node, kExample);
    }
    // An empty list would pass for "auto".
    if (list->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the list is empty; ", kExample));
    }
    for (const toml::node& item : *list) {
      const auto value = item.value_exact<int64_t>();
      if (!value) {
        return Expected("integers in the list", item, WithoutFraction(item));
      }
      out->push_back(*value);
    }
    return absl::OkStatus();
  }

  absl::Status operator()(std::vector<std::string>* out) const {
    constexpr char kExample[] = "write for example [\"transformer.wte\"]";
    out->clear();
    const toml::array* list = node.as_array();
    if (list == nullptr) return Expected("a list of texts", node, kExample);
    for (const toml::node& item : *list) {
      auto value = item.value_exact<std::string>();
      if (!value) return Expected("texts in the list", item, kExample);
      out->push_back(*std::move(value));
    }
    return absl::OkStatus();
  }

  absl::Status operator()(std::string* out) const {
    if (key.meaning == Meaning::kRecompute) return ReadRecompute(out);
    SC_ASSIGN_OR_RETURN(const std::string text, Text());
    if (!key.choices.empty() &&
        std::find(key.choices.begin(), key.choices.end(), text) ==
            key.choices.end()) {
      return NotOneOf(text, key.choices);
    }
    const bool is_path =
        key.meaning == Meaning::kPath ||
        (key.meaning == Meaning::kSchedule && IsScheduleFile(text));
    *out = is_path ? Resolve(text, folder) : text;
    return absl::OkStatus();
  }

  template <typename E, std::enable_if_t<std::is_enum_v<E>, bool> = true>
  absl::Status operator()(E* out) const {
    SC_ASSIGN_OR_RETURN(const std::string text, Text());
    return FromWord(text, out) ? absl::OkStatus()
                               : NotOneOf(text, WordTexts<E>());
  }

 private:
  // A list has one for each stage.
  absl::Status ReadRecompute(std::string* out) const {
    std::vector<std::string> parts;
    if (const toml::array* const list = node.as_array()) {
      for (const toml::node& item : *list) {
        const auto part = item.value_exact<std::string>();
        if (!part) return Expected("strings in the list", item);
        parts.push_back(*part);
      }
    } else {
      SC_ASSIGN_OR_RETURN(std::string text, Text());
      parts.push_back(std::move(text));
    }
    *out = absl::StrJoin(parts, ",");
    return ParseRecompute(*out).status();
  }

  absl::StatusOr<std::string> Text() const {
    auto value = node.value_exact<std::string>();
    if (!value) {
      return Expected("a string", node,
                      node.is_value() ? "put it in quotes" : "");
    }
    return *std::move(value);
  }

  // An integer is a number too: 1 for 1.0.
  static absl::Status Number(const toml::node& from, double* out) {
    if (const auto integer = from.value_exact<int64_t>()) {
      *out = static_cast<double>(*integer);
      return absl::OkStatus();
    }
    const auto value = from.value_exact<double>();
    if (!value) return Expected("a number", from, WithoutQuotes(from));
    *out = *value;
    return absl::OkStatus();
  }
};

bool IsText(const Key& key) {
  JobSpec spec;
  return !ChoicesOf(key).empty() ||
         std::holds_alternative<std::string*>(key.field(spec));
}

}  // namespace

absl::Status SetFromToml(const Key& key, const toml::node& node,
                         const std::string& folder, JobSpec* spec) {
  return std::visit(FieldReader{key, node, folder}, key.field(*spec));
}

toml::table OverrideValue(const Key& key, absl::string_view text) {
  const bool quoted =
      absl::StartsWith(text, "\"") || absl::StartsWith(text, "'");
  if (!IsText(key) || quoted) {
    try {
      toml::table parsed = toml::parse(absl::StrCat("value = ", text));
      // Text with a line break in it could bring further keys.
      if (parsed.size() == 1 && parsed.contains("value")) return parsed;
    } catch (const toml::parse_error&) {
      // Then it is the string itself.
    }
  }
  return toml::table{{"value", std::string(text)}};
}

absl::string_view TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

}  // namespace stagecoach::job
