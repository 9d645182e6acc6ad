#ifndef STAGECOACH_JOB_CONFIG_READER_H_
#define STAGECOACH_JOB_CONFIG_READER_H_

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace stagecoach::job {

// Takes the keys of one JSON object one by one and keeps account: what is left
// at the end nobody knows. A key that is absent or null has the fallback.
// Problems are collected ("PLACE: key: what"), and the fallback is returned.
// `object` and `problems` must outlive it. Thread-compatible.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, std::string place,
               std::vector<std::string>* problems)
      : object_(object), place_(std::move(place)), problems_(problems) {}

  // Whether nothing was wrong so far: what does not fit together is worth
  // saying only then.
  bool Sound() const { return problems_->empty(); }
  // Whether the key is there; and whether it is not null. Do not take it.
  bool IsWritten(const std::string& key) const;
  bool Has(const std::string& key) const;
  // The value as it is, nullptr if absent or null.
  const nlohmann::json* Take(const std::string& key);

  // Integers from `least` to 2^24: products of two and a few stay in 64 bits.
  int64_t Size(const std::string& key, int64_t fallback, int64_t least = 1);
  int64_t RequiredSize(const std::string& key);
  // Finite.
  double Number(const std::string& key, double fallback);
  double PositiveNumber(const std::string& key, double fallback);
  bool Flag(const std::string& key, bool fallback);
  std::string Text(const std::string& key, const std::string& fallback);
  // The value that goes with a text of the table.
  template <typename E>
  E OneOf(const std::string& key, const std::string& fallback,
          const std::vector<std::pair<std::string, E>>& table) {
    const std::string text = Text(key, fallback);
    std::string texts;
    for (const auto& [word, value] : table) {
      if (word == text) return value;
      texts += (texts.empty() ? "\"" : ", \"") + word + "\"";
    }
    Problem(key, "\"" + text + "\" is not supported; it can be " + texts);
    return table.front().second;
  }

  // A key that is supported with one value only, which is also what it has
  // where it is absent, unless `absent` says otherwise.
  void MustBe(const std::string& key, const nlohmann::json& value,
              const std::string& why);
  void MustBe(const std::string& key, const nlohmann::json& value,
              const nlohmann::json& absent, const std::string& why);
  // Keys that change no number of a training run.
  void Ignore(std::initializer_list<const char*> keys);

  void Problem(const std::string& key, absl::string_view message);
  // A problem for each key that nobody took; a near miss of a key that somebody
  // asked for is said.
  void RefuseTheRest();

 private:
  const nlohmann::json& object_;
  const std::string place_;
  std::vector<std::string>* const problems_;
  std::set<std::string> known_;
};

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_CONFIG_READER_H_
