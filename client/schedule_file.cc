#include "client/schedule_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "schedule/formats/formats.h"
#include "schedule/formats/pytorch_csv.h"
#include "schedule/generator.h"

namespace stagecoach::client {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 31;

bool IsCompute(const schedule::Action& action) {
  switch (action.kind) {
    case schedule::ActionKind::kForward:
    case schedule::ActionKind::kBackward:
    case schedule::ActionKind::kBackwardInput:
    case schedule::ActionKind::kBackwardWeight:
      return true;
    default:
      return false;
  }
}

bool HasTied(const schedule::Schedule& schedule) {
  return std::any_of(
      schedule.actions.begin(), schedule.actions.end(), [](const auto& list) {
        return std::any_of(list.begin(), list.end(), [](const auto& action) {
          return action.kind == schedule::ActionKind::kReduceTied;
        });
      });
}

}  // namespace

absl::StatusOr<schedule::Schedule> LoadSchedule(const std::string& file) {
  const bool standard_input = file == "-";
  const absl::StatusOr<std::string> contents =
      ReadFile(standard_input ? "/dev/stdin" : file, kMaxBytes);
  if (!contents.ok()) {
    return absl::InvalidArgumentError(contents.status().message());
  }
  absl::StatusOr<schedule::Schedule> schedule =
      schedule::ParseAny(*contents, standard_input ? "stdin" : file);
  if (!schedule.ok()) {
    return absl::InvalidArgumentError(schedule.status().message());
  }
  return schedule;
}

absl::StatusOr<std::string> InFormat(const schedule::Schedule& schedule,
                                     const std::string& format) {
  if (format == "json") return WithNewline(schedule::ToJson(schedule));
  if (format == "proto") return schedule::ToProtoBytes(schedule);
  if (format == "csv") {
    return schedule::ToPytorchCsv(
        schedule, schedule.lowered() ? schedule::PytorchCsvForm::kCommunication
                                     : schedule::PytorchCsvForm::kCompute);
  }
  return WithNewline(schedule::ToText(schedule));
}

std::string WithNewline(std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

schedule::Schedule ComputeOnly(schedule::Schedule schedule) {
  for (std::vector<schedule::Action>& list : schedule.actions) {
    list.erase(std::remove_if(list.begin(), list.end(),
                              [](const schedule::Action& action) {
                                return !IsCompute(action);
                              }),
               list.end());
  }
  schedule.send_budget = 0;
  schedule.edges.clear();
  return schedule;
}

schedule::Verdict VerifySchedule(const schedule::Schedule& schedule) {
  schedule::VerifyOptions options;
  const schedule::Generator* generator = schedule::FindGenerator(schedule.kind);
  options.forward_only = generator != nullptr && !generator->trains;
  options.tied_embeddings = HasTied(schedule);
  return schedule::Verify(schedule, options);
}

absl::StatusOr<schedule::StageCosts> ParseCosts(absl::string_view text) {
  if (text.empty()) return schedule::StageCosts();
  std::vector<double> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double number = 0;
    if (absl::SimpleAtod(part, &number) && std::isfinite(number) &&
        number >= 0) {
      numbers.push_back(number);
    }
  }
  const size_t parts = std::count(text.begin(), text.end(), ',') + size_t{1};
  if (numbers.size() != 3 || parts != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("--costs ", text,
                     " must be three numbers F,B,W: one stage's forward, input "
                     "gradient and weight gradient, for example 1,1,1"));
  }
  schedule::StageCosts costs;
  costs.forward = numbers[0];
  costs.backward_input = numbers[1];
  costs.backward_weight = numbers[2];
  return costs;
}

absl::Status WriteFile(const std::string& file, absl::string_view contents) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (out.fail()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", file, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach::client
