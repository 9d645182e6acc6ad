#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "schedule/formats/check.h"
#include "schedule/formats/formats.h"
#include "schedule/shape.h"
#include "stagecoach/v1/schedule.pb.h"

namespace stagecoach::schedule {
namespace {

// The two enumerations name the same things one apart: protobuf's 0 is
// "unspecified".
v1::ActionKind ToProtoKind(ActionKind kind) {
  return static_cast<v1::ActionKind>(static_cast<int>(kind) + 1);
}
static_assert(static_cast<int>(ActionKind::kForward) + 1 ==
              v1::ACTION_KIND_FORWARD);
static_assert(static_cast<int>(ActionKind::kAwaitGradientRelease) + 1 ==
              v1::ACTION_KIND_AWAIT_GRADIENT_RELEASE);
static_assert(static_cast<int>(ActionKind::kReduceTied) + 1 ==
              v1::ACTION_KIND_REDUCE_TIED);

bool FromProtoKind(int number, ActionKind* kind) {
  if (number < v1::ACTION_KIND_FORWARD ||
      number > v1::ACTION_KIND_REDUCE_TIED) {
    return false;
  }
  *kind = static_cast<ActionKind>(number - 1);
  return true;
}

// Of a message: three for each action, and room for the rest.
constexpr int64_t kMaxNumbers = 3 * kMaxActions + (int64_t{1} << 24);

// At least as many as parsing makes: each number's last byte is below 128.
int64_t CountNumbers(absl::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) < 128;
  });
}

absl::Status Invalid(absl::string_view field, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", message));
}

absl::Status RefuseUnknown(const google::protobuf::Message& message,
                           absl::string_view field) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return Invalid(field, absl::StrCat("field number ", unknown.field(0).number(),
                                     " is not known"));
}

absl::Status ReadHeader(const v1::Schedule& proto, Schedule* schedule) {
  SC_RETURN_IF_ERROR(RefuseUnknown(proto, "schedule"));
  if (proto.version() != formats::kVersion) {
    return Invalid("version", absl::StrCat(proto.version(),
                                           " is not known; this program reads "
                                           "version ",
                                           formats::kVersion));
  }
  if (std::string problem = formats::KindProblem(proto.kind());
      !problem.empty()) {
    return Invalid("kind", problem);
  }
  schedule->kind = proto.kind();
  schedule->workers = proto.workers();
  schedule->stages_per_worker = proto.stages_per_worker();
  schedule->microbatches = proto.microbatches();
  schedule->send_budget = proto.send_budget();
  for (const int32_t worker : proto.placement()) {
    schedule->placement.push_back(WorkerIndex(worker));
  }
  if (std::string problem = HeaderProblem(*schedule); !problem.empty()) {
    return Invalid("schedule", problem);
  }
  return absl::OkStatus();
}

absl::Status ReadEdge(const v1::EdgePlan& proto, const std::string& field,
                      Schedule* schedule) {
  SC_RETURN_IF_ERROR(RefuseUnknown(proto, field));
  SC_RETURN_IF_ERROR(RefuseUnknown(proto.edge(), field + ".edge"));
  EdgePlan plan;
  plan.edge.from = WorkerIndex(proto.edge().from_worker());
  plan.edge.to = WorkerIndex(proto.edge().to_worker());
  plan.receive_depth = proto.receive_depth();
  plan.pool_slots = proto.pool_slots();
  switch (proto.edge().direction()) {
    case v1::DIRECTION_ACTIVATION:
      plan.edge.direction = Direction::kActivation;
      break;
    case v1::DIRECTION_GRADIENT:
      plan.edge.direction = Direction::kGradient;
      break;
    default:
      return Invalid(field + ".edge.direction", "not known");
  }
  if (std::string problem = formats::EdgeProblem(*schedule, plan);
      !problem.empty()) {
    return Invalid(field, problem);
  }
  schedule->edges.push_back(plan);
  return absl::OkStatus();
}

absl::Status ReadList(const v1::ActionList& proto, const std::string& field,
                      formats::ActionCheck* check, Schedule* schedule) {
  SC_RETURN_IF_ERROR(RefuseUnknown(proto, field));
  if (proto.stage_size() != proto.kind_size() ||
      proto.microbatch_size() != proto.kind_size()) {
    return Invalid(field, "kind, stage and microbatch differ in length");
  }
  std::vector<Action> list(static_cast<size_t>(proto.kind_size()));
  for (int i = 0; i < proto.kind_size(); ++i) {
    Action& action = list[static_cast<size_t>(i)];
    if (!FromProtoKind(proto.kind(i), &action.kind)) {
      return Invalid(
          absl::StrCat(field, ".kind[", i, "]"),
          absl::StrCat(static_cast<int>(proto.kind(i)), " is not known"));
    }
    action.stage = StageIndex(proto.stage(i));
    action.microbatch = MicrobatchIndex(proto.microbatch(i));
    if (std::string problem = check->Problem(action); !problem.empty()) {
      return Invalid(absl::StrCat(field, " action ", i), problem);
    }
  }
  schedule->actions.push_back(std::move(list));
  return absl::OkStatus();
}

}  // namespace

void ToProto(const Schedule& schedule, v1::Schedule* proto) {
  proto->Clear();
  proto->set_version(formats::kVersion);
  proto->set_kind(schedule.kind);
  proto->set_workers(schedule.workers);
  proto->set_stages_per_worker(schedule.stages_per_worker);
  proto->set_microbatches(schedule.microbatches);
  proto->set_send_budget(schedule.send_budget);
  for (const WorkerIndex worker : schedule.placement) {
    proto->add_placement(worker.value());
  }
  for (const std::vector<Action>& list : schedule.actions) {
    v1::ActionList* actions = proto->add_actions();
    for (const Action& action : list) {
      actions->add_kind(ToProtoKind(action.kind));
      actions->add_stage(action.stage.value());
      actions->add_microbatch(action.microbatch.value());
    }
  }
  for (const EdgePlan& plan : schedule.edges) {
    v1::EdgePlan* edge = proto->add_edges();
    edge->mutable_edge()->set_from_worker(plan.edge.from.value());
    edge->mutable_edge()->set_to_worker(plan.edge.to.value());
    edge->mutable_edge()->set_direction(
        plan.edge.direction == Direction::kActivation ? v1::DIRECTION_ACTIVATION
                                                      : v1::DIRECTION_GRADIENT);
    edge->set_receive_depth(plan.receive_depth);
    edge->set_pool_slots(plan.pool_slots);
  }
}

absl::StatusOr<Schedule> FromProto(const v1::Schedule& proto) {
  Schedule schedule;
  SC_RETURN_IF_ERROR(ReadHeader(proto, &schedule));
  for (int e = 0; e < proto.edges_size(); ++e) {
    SC_RETURN_IF_ERROR(
        ReadEdge(proto.edges(e), absl::StrCat("edges[", e, "]"), &schedule));
  }
  formats::ActionCheck check(schedule);
  if (proto.actions_size() != schedule.workers) {
    return Invalid("actions", absl::StrCat(proto.actions_size(), " lists for ",
                                           schedule.workers, " workers"));
  }
  for (int w = 0; w < proto.actions_size(); ++w) {
    SC_RETURN_IF_ERROR(ReadList(
        proto.actions(w), absl::StrCat("actions[", w, "]"), &check, &schedule));
  }
  return schedule;
}

// The version goes last, as protobuf allows: input cut anywhere, also between
// two fields, then has none and is refused.
std::string ToProtoBytes(const Schedule& schedule) {
  v1::Schedule proto;
  ToProto(schedule, &proto);
  v1::Schedule version;
  version.set_version(proto.version());
  proto.clear_version();
  return proto.SerializeAsString() + version.SerializeAsString();
}

absl::StatusOr<Schedule> ParseProtoBytes(absl::string_view bytes) {
  if (CountNumbers(bytes) > kMaxNumbers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "more numbers than the limit of ", kMaxActions, " actions allows"));
  }
  v1::Schedule proto;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(
        "not a protobuf schedule, or not all of it");
  }
  return FromProto(proto);
}

}  // namespace stagecoach::schedule
