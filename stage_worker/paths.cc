#include "stage_worker/paths.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace stagecoach::worker {
namespace {

const PathOffer* FindOffer(const WorkerPaths& paths, absl::string_view kind) {
  for (const PathOffer& offer : paths.offers) {
    if (offer.kind == kind) return &offer;
  }
  return nullptr;
}

absl::StatusOr<PathEnd> EndOf(const WorkerPaths& paths, absl::string_view kind,
                              absl::string_view side) {
  const PathOffer* offer = FindOffer(paths, kind);
  if (offer == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(kind, ": the ", side, " does not know it"));
  }
  if (!offer->obstacle.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(kind, ": not at the ", side, ": ", offer->obstacle));
  }
  return PathEnd{paths.location, offer->detail};
}

absl::Status Viable(const Transport& transport, const WorkerPaths& from,
                    const WorkerPaths& to) {
  SC_ASSIGN_OR_RETURN(const PathEnd sender,
                      EndOf(from, transport.kind, "sender"));
  SC_ASSIGN_OR_RETURN(const PathEnd receiver,
                      EndOf(to, transport.kind, "receiver"));
  if (transport.check == nullptr) return absl::OkStatus();
  absl::Status status = transport.check(sender, receiver);
  if (absl::StartsWith(status.message(), transport.kind)) return status;
  return Annotate(status, transport.kind);
}

}  // namespace

WorkerPaths OffersOf(const std::vector<Transport>& transports,
                     const transport::Location& location) {
  WorkerPaths paths;
  paths.location = location;
  for (const Transport& transport : transports) {
    paths.offers.push_back(
        PathOffer{transport.kind, transport.obstacle, transport.detail});
  }
  return paths;
}

absl::StatusOr<PathChoice> ChoosePath(const std::vector<Transport>& transports,
                                      const WorkerPaths& from,
                                      const WorkerPaths& to,
                                      absl::string_view forced) {
  std::vector<std::string> obstacles;
  for (const Transport& transport : transports) {
    if (!forced.empty() && transport.kind != forced) continue;
    if (forced.empty() && transport.only_if_asked) continue;
    if (absl::Status viable = Viable(transport, from, to); !viable.ok()) {
      obstacles.emplace_back(viable.message());
      continue;
    }
    PathChoice choice;
    choice.kind = transport.kind;
    if (!forced.empty()) {
      choice.why = "asked for by pipeline.transport";
    } else {
      choice.why =
          obstacles.empty() ? transport.merit : absl::StrJoin(obstacles, "; ");
    }
    return choice;
  }
  if (obstacles.empty()) {
    obstacles.push_back(absl::StrCat(forced, ": this worker does not know it"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      forced.empty() ? "no way to move tensors: "
                     : absl::StrCat("pipeline.transport = \"", forced, "\": "),
      absl::StrJoin(obstacles, "; ")));
}

}  // namespace stagecoach::worker
