#ifndef STAGECOACH_STAGE_WORKER_PATHS_H_
#define STAGECOACH_STAGE_WORKER_PATHS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "transport/location.h"
#include "transport/transport.h"

// Which way the transfers of an edge take. Both workers of an edge know what
// the other offers and choose by the same rule, so that they agree without
// asking each other.
namespace stagecoach::worker {

// What a worker says about one way.
struct PathOffer {
  std::string kind;      // "shm"
  std::string obstacle;  // why this worker does not have it; empty: it has
  std::string detail;    // for the way's own check
};

// What a worker says about itself to its peers.
struct WorkerPaths {
  transport::Location location;
  std::vector<PathOffer> offers;
};

// One end of an edge, as a way's check sees it.
struct PathEnd {
  transport::Location location;
  std::string detail;
};

// One way that this program knows: a row of the table that a worker's main
// makes, the best first. Every worker of a job has the same table.
struct Transport {
  std::string kind;
  std::string merit;  // for people: why it is taken where it can be
  transport::EndpointFactory factory;
  std::string obstacle;  // as PathOffer
  std::string detail;
  // Not one of those that are looked at unless a job asks for it by name.
  bool only_if_asked = false;
  // OK, or what keeps this sender from reaching this receiver. Null: nothing.
  std::function<absl::Status(const PathEnd& from, const PathEnd& to)> check;
};

struct PathChoice {
  std::string kind;
  std::string why;  // for people
};

// What a worker with this table, on this machine, offers.
WorkerPaths OffersOf(const std::vector<Transport>& transports,
                     const transport::Location& location);

// The first way of the table that both have and whose check is content; with
// `forced` (a kind, or empty) that one. kFailedPrecondition if there is none,
// with the obstacle of each.
absl::StatusOr<PathChoice> ChoosePath(const std::vector<Transport>& transports,
                                      const WorkerPaths& from,
                                      const WorkerPaths& to,
                                      absl::string_view forced);

// What the worker with this index offers. May block for a while.
using PathsResolver = std::function<absl::StatusOr<WorkerPaths>(WorkerIndex)>;

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PATHS_H_
