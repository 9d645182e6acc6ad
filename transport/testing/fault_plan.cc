#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/suggest.h"
#include "transport/testing/faulty_endpoint.h"

namespace stagecoach::transport {
namespace {

using Setter = std::function<bool(absl::string_view value, FaultPlan* plan)>;

Setter Count(int FaultPlan::*field) {
  return [field](absl::string_view value, FaultPlan* plan) {
    return absl::SimpleAtoi(value, &(plan->*field)) && plan->*field >= 0;
  };
}

std::map<std::string, Setter> Setters() {
  return {
      {"seed",
       [](absl::string_view value, FaultPlan* plan) {
         return absl::SimpleAtoi(value, &plan->seed);
       }},
      {"reorder_acks",
       [](absl::string_view value, FaultPlan* plan) {
         return absl::SimpleAtob(value, &plan->reorder_acks);
       }},
      {"delay_receive_polls", Count(&FaultPlan::delay_receive_polls)},
      {"delay_ack_polls", Count(&FaultPlan::delay_ack_polls)},
      {"duplicate_ack_every", Count(&FaultPlan::duplicate_ack_every)},
      {"stale_ack_every", Count(&FaultPlan::stale_ack_every)},
      {"unknown_ack_every", Count(&FaultPlan::unknown_ack_every)},
      {"lose_ack_at", Count(&FaultPlan::lose_ack_at)},
      {"drop_link_at_send", Count(&FaultPlan::drop_link_at_send)},
  };
}

absl::Status UnknownFault(const std::string& name,
                          const std::map<std::string, Setter>& setters) {
  std::vector<std::string> known;
  for (const auto& setter : setters) known.push_back(setter.first);
  return absl::InvalidArgumentError(absl::StrCat(
      "fault plan: unknown fault \"", name, "\"", DidYouMean(name, known)));
}

}  // namespace

absl::StatusOr<FaultPlan> FaultPlan::Parse(absl::string_view text) {
  const std::map<std::string, Setter> setters = Setters();
  FaultPlan plan;
  for (absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> setting = absl::StrSplit(
        absl::StripAsciiWhitespace(part), absl::MaxSplits('=', 1));
    const auto setter = setters.find(setting.first);
    if (setter == setters.end()) return UnknownFault(setting.first, setters);
    if (!setter->second(setting.second, &plan)) {
      return absl::InvalidArgumentError(
          absl::StrCat("fault plan: ", setting.first, " = \"", setting.second,
                       "\" is not a count from 0 (reorder_acks: 0 or 1)"));
    }
  }
  return plan;
}

}  // namespace stagecoach::transport
