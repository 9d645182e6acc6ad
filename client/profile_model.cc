#include "client/profile_model.h"

#include <google/protobuf/util/json_util.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/call_worker.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"

namespace stagecoach::client {

absl::StatusOr<job::ModelProfile> ProfileModel(const job::JobSpec& spec,
                                               const std::string& worker_binary,
                                               const Interrupt& interrupt) {
  v1::JobSpec proto;
  job::ToProto(spec, &proto);
  WorkerCall call;
  call.binary = worker_binary;
  call.flag = "--profile";
  call.request = proto.SerializeAsString();
  call.doing = "measures the model";
  std::string answer;
  SC_RETURN_IF_ERROR(CallWorker(
      call, interrupt, [&answer](const std::string& line) { answer = line; }));
  v1::ModelProfile measured;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(answer, &measured);
  if (!parsed.ok()) {
    return absl::InternalError(
        absl::StrCat("the worker's profile cannot be read (", parsed.ToString(),
                     "): ", answer));
  }
  return job::FromProto(measured, spec.model.layers);
}

}  // namespace stagecoach::client
