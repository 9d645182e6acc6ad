#ifndef STAGECOACH_JOB_KEYS_H_
#define STAGECOACH_JOB_KEYS_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "job/job_spec.h"

namespace stagecoach::job {

// Where a key's value lives in a JobSpec. Its C++ type is the key's type.
using Field =
    std::variant<bool*, int64_t*, double*, std::string*, std::array<double, 2>*,
                 std::vector<int64_t>*, std::vector<std::string>*,
                 Architecture*, DataKind*, SampleOrder*, OptimizerKind*,
                 LearningRateSchedule*, Precision*, KernelChoice*,
                 ReleasePolicy*, OptimizerPlace*, TransportKind*>;

// The values that a numeric key may have (each number of it, if it has many).
struct Limits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool without_least = false;  // more than `least`, not equal
  bool without_most = false;

  bool Allow(double value) const;
  std::string ToString() const;  // "from 1 to 8", "at least 0", ...
};

// What a string or integer stands for, where its type does not say it.
enum class Meaning {
  kPlain,
  kPath,       // resolved against the spec's folder
  kByteSize,   // "8GiB" or an integer
  kSchedule,   // a kind of schedule, or the path of a file
  kRecompute,  // see recompute.h
};

// One key of the job spec. This table is the only description of the spec's
// keys: reading files, --set, unknown-key messages, range checks and the test
// of docs/job_spec.md all go by it. Defaults are those of `JobSpec()`.
struct Key {
  absl::string_view name;  // dotted: "pipeline.send_budget"
  Field (*field)(JobSpec& spec);
  Limits limits;
  Meaning meaning = Meaning::kPlain;
  bool required = false;
  // What the default stands for where its value does not say it: "off".
  absl::string_view unset = "";
  // For a string that is one of a few words without an enum.
  std::vector<std::string> choices = {};
};

const std::vector<Key>& Keys();
// nullptr if there is none.
const Key* FindKey(absl::string_view name);
// Whether `name` is a table of the spec, such as "pipeline".
bool IsTable(absl::string_view name);
// "pipeline" of "pipeline.workers"; "" of "name".
absl::string_view TableOf(absl::string_view key);
// "workers" of "pipeline.workers".
absl::string_view LeafOf(absl::string_view key);
// The full names of the keys of one table ("" for those at the top).
std::vector<std::string> KeysOfTable(absl::string_view table);

// The words that a key's value is one of; empty if it is no such key.
std::vector<std::string> ChoicesOf(const Key& key);
// "integer from 1 to 1024", "`adamw` or `sgd`", "size": as the manual says it.
std::string TypeText(const Key& key);
// "required", "off", "`1f1b`": as the manual says it.
std::string DefaultText(const Key& key);
// A value as TOML: "\"1f1b\"", "[0.9, 0.95]". Numbers read back to the same
// bits. An empty list of integers is "auto", the only one that can be empty.
std::string ValueText(const Key& key, const JobSpec& spec);
// The shortest text that reads back to the same double.
std::string NumberText(double value);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_KEYS_H_
