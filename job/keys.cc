#include "job/keys.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "job/words.h"

namespace stagecoach::job {
namespace {

Limits From(double least, double most) {
  Limits limits;
  limits.least = least;
  limits.most = most;
  return limits;
}

Limits AtLeast(double least) {
  Limits limits;
  limits.least = least;
  return limits;
}

Limits MoreThan(double least) {
  Limits limits = AtLeast(least);
  limits.without_least = true;
  return limits;
}

Limits FromToBelow(double least, double most) {
  Limits limits = From(least, most);
  limits.without_most = true;
  return limits;
}

Key Required(Key key) {
  key.required = true;
  return key;
}

Key Unset(absl::string_view stands_for, Key key) {
  key.unset = stands_for;
  return key;
}

Key OneOf(Key key, std::vector<std::string> choices) {
  key.choices = std::move(choices);
  return key;
}

// The upper limits are generous; what they keep out is arithmetic that leaves
// 64 bits and requests that no machine can serve.
constexpr double kMaxLayers = 1 << 16;
constexpr double kMaxWidth = 1 << 20;
constexpr double kMaxVocabulary = 1 << 24;
constexpr double kMaxSequence = 1 << 20;
constexpr double kMaxSteps = 1e9;
constexpr double kMaxMicrobatches = 1 << 16;
constexpr double kMaxWorkers = 1 << 12;
constexpr double kMaxSendBudget = 1 << 10;
constexpr double kMaxThreads = 1 << 10;
constexpr double kMaxLossScale = int64_t{1} << 40;
constexpr double kMaxMicrobatchTokens = 1 << 30;

// A macro, since only it can turn a member's path into an accessor.
#define SC_FIELD(member) [](JobSpec& spec) -> Field { return &spec.member; }

std::vector<Key> TopKeys() {
  return {
      Required({"name", SC_FIELD(name), {}}),
      {"seed", SC_FIELD(seed), AtLeast(0)},
  };
}

std::vector<Key> ModelKeys() {
  return {
      {"model.architecture", SC_FIELD(model.architecture), {}},
      Unset(
          "none",
          {"model.checkpoint", SC_FIELD(model.checkpoint), {}, Meaning::kPath}),
      Required({"model.layers", SC_FIELD(model.layers), From(1, kMaxLayers)}),
      Required({"model.hidden", SC_FIELD(model.hidden), From(1, kMaxWidth)}),
      Required({"model.heads", SC_FIELD(model.heads), From(1, kMaxWidth)}),
      {"model.vocabulary", SC_FIELD(model.vocabulary), From(1, kMaxVocabulary)},
      {"model.tie_embeddings", SC_FIELD(model.tie_embeddings), {}},
      Unset("`0`, or the checkpoint's",
            {"model.dropout", SC_FIELD(model.dropout), FromToBelow(0, 1)}),
      Unset("none", {"model.path", SC_FIELD(model.path), {}, Meaning::kPath}),
      {"model.options", SC_FIELD(model.options), {}},
      {"model.boundary", SC_FIELD(model.boundary), From(1, kMaxWidth)},
      Unset("none", {"model.boundaries", SC_FIELD(model.boundaries), {}}),
  };
}

std::vector<Key> DataKeys() {
  return {
      {"data.kind", SC_FIELD(data.kind), {}},
      Required({"data.path", SC_FIELD(data.path), {}, Meaning::kPath}),
      OneOf({"data.token_type", SC_FIELD(data.token_type), {}},
            {"uint16", "uint32"}),
      {"data.sequence_length", SC_FIELD(data.sequence_length),
       From(1, kMaxSequence)},
      Unset("`data.sequence_length`",
            {"data.stride", SC_FIELD(data.stride), From(1, kMaxSequence)}),
      {"data.order", SC_FIELD(data.order), {}},
      OneOf({"data.documents", SC_FIELD(data.documents), {}},
            {"packed", "isolated"}),
      Unset("none", {"data.document_end", SC_FIELD(data.document_end),
                     From(0, kMaxVocabulary)}),
      OneOf({"data.targets", SC_FIELD(data.targets), {}}, {"next", "last"}),
  };
}

std::vector<Key> TrainingKeys() {
  return {
      {"training.steps", SC_FIELD(training.steps), From(1, kMaxSteps)},
      {"training.microbatches", SC_FIELD(training.microbatches),
       From(1, kMaxMicrobatches)},
      {"training.microbatch_size", SC_FIELD(training.microbatch_size),
       From(1, kMaxMicrobatches)},
      Unset(
          "`training.microbatch_size`",
          {"training.last_microbatch_size",
           SC_FIELD(training.last_microbatch_size), From(1, kMaxMicrobatches)}),
      {"training.optimizer", SC_FIELD(training.optimizer), {}},
      {"training.betas", SC_FIELD(training.betas), FromToBelow(0, 1)},
      {"training.epsilon", SC_FIELD(training.epsilon), MoreThan(0)},
      {"training.weight_decay", SC_FIELD(training.weight_decay), AtLeast(0)},
      {"training.learning_rate", SC_FIELD(training.learning_rate), AtLeast(0)},
      {"training.minimum_learning_rate",
       SC_FIELD(training.minimum_learning_rate), AtLeast(0)},
      {"training.learning_rate_schedule",
       SC_FIELD(training.learning_rate_schedule),
       {}},
      {"training.warmup_steps", SC_FIELD(training.warmup_steps),
       From(0, kMaxSteps)},
      {"training.gradient_clip", SC_FIELD(training.gradient_clip), AtLeast(0)},
      {"training.precision", SC_FIELD(training.precision), {}},
      {"training.initial_loss_scale", SC_FIELD(training.initial_loss_scale),
       From(1, kMaxLossScale)},
      {"training.loss_scale_growth_steps",
       SC_FIELD(training.loss_scale_growth_steps), From(1, kMaxSteps)},
      Unset("none", {"training.freeze", SC_FIELD(training.freeze), {}}),
      {"training.kernels", SC_FIELD(training.kernels), {}},
      {"training.threads", SC_FIELD(training.threads), From(1, kMaxThreads)},
      {"training.loss_chunk", SC_FIELD(training.loss_chunk),
       From(0, kMaxMicrobatchTokens)},
  };
}

std::vector<Key> PipelineKeys() {
  return {
      {"pipeline.workers", SC_FIELD(pipeline.workers), From(1, kMaxWorkers)},
      {"pipeline.stages_per_worker", SC_FIELD(pipeline.stages_per_worker),
       From(1, kMaxWorkers)},
      {"pipeline.schedule",
       SC_FIELD(pipeline.schedule),
       {},
       Meaning::kSchedule},
      {"pipeline.split", SC_FIELD(pipeline.split), From(1, kMaxLayers)},
      {"pipeline.release", SC_FIELD(pipeline.release), {}},
      {"pipeline.send_budget", SC_FIELD(pipeline.send_budget),
       From(1, kMaxSendBudget)},
      {"pipeline.transport", SC_FIELD(pipeline.transport), {}},
  };
}

std::vector<Key> OtherKeys() {
  return {
      Unset("off", {"memory.limit", SC_FIELD(memory.limit_bytes), AtLeast(0),
                    Meaning::kByteSize}),
      {"memory.recompute", SC_FIELD(memory.recompute), {}, Meaning::kRecompute},
      {"memory.optimizer", SC_FIELD(memory.optimizer), {}},
      {"recovery.max_failures", SC_FIELD(recovery.max_failures), AtLeast(0)},
      {"recovery.no_progress", SC_FIELD(recovery.no_progress), AtLeast(1)},
      {"recovery.neighbour_copy", SC_FIELD(recovery.neighbour_copy), {}},
      Unset("off", {"checkpoint.directory",
                    SC_FIELD(checkpoint.directory),
                    {},
                    Meaning::kPath}),
      {"checkpoint.every_steps", SC_FIELD(checkpoint.every_steps),
       From(1, kMaxSteps)},
      {"checkpoint.keep", SC_FIELD(checkpoint.keep), From(0, kMaxSteps)},
      Unset("off",
            {"evaluation.path", SC_FIELD(evaluation.path), {}, Meaning::kPath}),
      {"evaluation.every_steps", SC_FIELD(evaluation.every_steps),
       From(1, kMaxSteps)},
      {"evaluation.microbatches", SC_FIELD(evaluation.microbatches),
       From(1, kMaxMicrobatches)},
  };
}

#undef SC_FIELD

std::vector<Key> AllKeys() {
  std::vector<Key> all;
  for (std::vector<Key> (*part)() :
       {TopKeys, ModelKeys, DataKeys, TrainingKeys, PipelineKeys, OtherKeys}) {
    const std::vector<Key> keys = part();
    all.insert(all.end(), keys.begin(), keys.end());
  }
  return all;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

std::string CountText(int64_t value) { return absl::StrCat(value); }
std::string CountText(double value) { return NumberText(value); }
std::string CountText(const std::string& value) { return Quoted(value); }

template <typename List>
std::string ListText(const List& list) {
  return absl::StrCat("[",
                      absl::StrJoin(list, ", ",
                                    [](std::string* out, const auto& value) {
                                      absl::StrAppend(out, CountText(value));
                                    }),
                      "]");
}

std::string WithLimits(absl::string_view type, const Limits& limits) {
  const std::string text = limits.ToString();
  return text.empty() ? std::string(type) : absl::StrCat(type, " ", text);
}

std::string TextType(const Key& key) {
  switch (key.meaning) {
    case Meaning::kPath:
      return "path";
    case Meaning::kSchedule:
      return "kind of schedule, or path";
    case Meaning::kRecompute:
      return "`none`, `full` or `every-N`, or one of them for each stage";
    case Meaning::kPlain:
    case Meaning::kByteSize:
      break;
  }
  return "text";
}

}  // namespace

bool Limits::Allow(double value) const {
  if (!std::isfinite(value)) return false;
  if (without_least ? value <= least : value < least) return false;
  return !(without_most ? value >= most : value > most);
}

std::string Limits::ToString() const {
  const bool has_least = std::isfinite(least);
  const bool has_most = std::isfinite(most);
  if (has_least && has_most) {
    return absl::StrCat("from ", NumberText(least),
                        without_most ? " to below " : " to ", NumberText(most));
  }
  if (!has_least) return "";
  return absl::StrCat(without_least ? "more than " : "at least ",
                      NumberText(least));
}

const std::vector<Key>& Keys() {
  static const auto* const keys = new std::vector<Key>(AllKeys());
  return *keys;
}

const Key* FindKey(absl::string_view name) {
  for (const Key& key : Keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

absl::string_view TableOf(absl::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == absl::string_view::npos ? absl::string_view()
                                        : key.substr(0, dot);
}

absl::string_view LeafOf(absl::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == absl::string_view::npos ? key : key.substr(dot + 1);
}

bool IsTable(absl::string_view name) {
  return !name.empty() &&
         std::any_of(Keys().begin(), Keys().end(),
                     [&](const Key& key) { return TableOf(key.name) == name; });
}

std::vector<std::string> KeysOfTable(absl::string_view table) {
  std::vector<std::string> names;
  for (const Key& key : Keys()) {
    if (TableOf(key.name) == table) names.emplace_back(key.name);
  }
  return names;
}

std::vector<std::string> ChoicesOf(const Key& key) {
  JobSpec spec;
  return std::visit(
      [&](auto* field) {
        using T = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_enum_v<T>) {
          return WordTexts<T>();
        } else {
          return key.choices;
        }
      },
      key.field(spec));
}

std::string TypeText(const Key& key) {
  const std::vector<std::string> choices = ChoicesOf(key);
  if (!choices.empty()) {
    return absl::StrCat("`", absl::StrJoin(choices, "`, `"), "`");
  }
  if (key.meaning == Meaning::kByteSize) return "size";
  JobSpec spec;
  const Field field = key.field(spec);
  if (std::holds_alternative<bool*>(field)) return "boolean";
  if (std::holds_alternative<std::string*>(field)) return TextType(key);
  if (std::holds_alternative<std::array<double, 2>*>(field)) {
    return WithLimits("two numbers", key.limits);
  }
  if (std::holds_alternative<std::vector<std::string>*>(field)) {
    return "list of texts";
  }
  if (std::holds_alternative<std::vector<int64_t>*>(field)) {
    return absl::StrCat("`auto` or list of ",
                        WithLimits("integers", key.limits));
  }
  return WithLimits(
      std::holds_alternative<double*>(field) ? "number" : "integer",
      key.limits);
}

std::string DefaultText(const Key& key) {
  if (key.required) return "required";
  if (!key.unset.empty()) return std::string(key.unset);
  return absl::StrCat("`", ValueText(key, JobSpec()), "`");
}

std::string ValueText(const Key& key, const JobSpec& spec) {
  JobSpec copy = spec;  // Fields are pointers into a spec that can change.
  return std::visit(
      [](const auto* field) -> std::string {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(field)>>;
        if constexpr (std::is_enum_v<T>) {
          return Quoted(WordOf(*field));
        } else if constexpr (std::is_same_v<T, bool>) {
          return *field ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return Quoted(*field);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return CountText(*field);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return field->empty() ? Quoted("auto") : ListText(*field);
        } else {
          return ListText(*field);
        }
      },
      key.field(copy));
}

std::string NumberText(double value) {
  std::string text;
  double back = 0;
  for (int digits = 1; digits <= 17; ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    if (absl::SimpleAtod(text, &back) && back == value) break;
  }
  // 1048576 rather than 1.048576e+06.
  if (std::fabs(value) < 1e15 && std::floor(value) == value) {
    return absl::StrFormat("%.0f", value);
  }
  return absl::StrReplaceAll(text, {{"e-0", "e-"}, {"e+0", "e+"}});
}

}  // namespace stagecoach::job
