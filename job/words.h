#ifndef STAGECOACH_JOB_WORDS_H_
#define STAGECOACH_JOB_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "job/job_spec.h"

namespace stagecoach::job {

// The words that a spec file, the protobuf spec and messages use for the values
// of an enum: one table for each enum.
template <typename E>
struct Word {
  absl::string_view text;
  E value;
  bool supported = true;  // false: parsed, but not built yet
};

// All words of enum E, in the order in which help shows them. Defined for every
// enum of job_spec.h.
template <typename E>
absl::Span<const Word<E>> Words();

template <>
absl::Span<const Word<Architecture>> Words<Architecture>();
template <>
absl::Span<const Word<DataKind>> Words<DataKind>();
template <>
absl::Span<const Word<SampleOrder>> Words<SampleOrder>();
template <>
absl::Span<const Word<OptimizerKind>> Words<OptimizerKind>();
template <>
absl::Span<const Word<LearningRateSchedule>> Words<LearningRateSchedule>();
template <>
absl::Span<const Word<Precision>> Words<Precision>();
template <>
absl::Span<const Word<KernelChoice>> Words<KernelChoice>();
template <>
absl::Span<const Word<ReleasePolicy>> Words<ReleasePolicy>();
template <>
absl::Span<const Word<OptimizerPlace>> Words<OptimizerPlace>();
template <>
absl::Span<const Word<TransportKind>> Words<TransportKind>();

// The word of a value; "" for a value that is none of the enum's.
template <typename E>
absl::string_view WordOf(E value) {
  for (const Word<E>& word : Words<E>()) {
    if (word.value == value) return word.text;
  }
  return "";
}

// False, and `*value` untouched, if there is no such word.
template <typename E>
bool FromWord(absl::string_view text, E* value) {
  for (const Word<E>& word : Words<E>()) {
    if (word.text != text) continue;
    *value = word.value;
    return true;
  }
  return false;
}

template <typename E>
bool IsSupported(E value) {
  for (const Word<E>& word : Words<E>()) {
    if (word.value == value) return word.supported;
  }
  return false;
}

template <typename E>
std::vector<std::string> WordTexts(bool supported_only = false) {
  std::vector<std::string> texts;
  for (const Word<E>& word : Words<E>()) {
    if (word.supported || !supported_only) texts.emplace_back(word.text);
  }
  return texts;
}

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_WORDS_H_
