#include "client/output/edge_output.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace stagecoach::client {
namespace {

struct EdgePath {
  std::string edge;
  std::string transport;
  std::string why;
};

// "activation 0->1: shm (same host)", cut into its parts.
EdgePath ParseEdge(absl::string_view text) {
  EdgePath edge;
  const size_t colon = text.find(": ");
  edge.edge = std::string(text.substr(0, colon));
  if (colon == absl::string_view::npos) return edge;
  text.remove_prefix(colon + 2);
  const size_t bracket = text.find(" (");
  edge.transport = std::string(text.substr(0, bracket));
  if (bracket == absl::string_view::npos) return edge;
  text.remove_prefix(bracket + 2);
  absl::ConsumeSuffix(&text, ")");
  edge.why = std::string(text);
  return edge;
}

// What has gone over the edge; null until its sender has said.
const v1::EdgeTraffic* TrafficOf(const v1::Job& job, const std::string& edge) {
  for (const v1::JobWorker& worker : job.workers()) {
    for (const v1::EdgeTraffic& traffic : worker.edges()) {
      if (traffic.edge() == edge) return &traffic;
    }
  }
  return nullptr;
}

// "37 of 40 transfers produced in place", and what broke, if anything did.
std::vector<std::string> TrafficLines(const v1::Job& job) {
  int64_t transfers = 0;
  int64_t in_place = 0;
  v1::LinkCounters link;
  for (const v1::JobWorker& worker : job.workers()) {
    for (const v1::EdgeTraffic& edge : worker.edges()) {
      transfers += edge.transfers();
      in_place += edge.in_place();
    }
    const v1::LinkCounters& own = worker.link();
    link.set_reconnections(link.reconnections() + own.reconnections());
    link.set_resent_transfers(link.resent_transfers() + own.resent_transfers());
    link.set_duplicate_transfers(link.duplicate_transfers() +
                                 own.duplicate_transfers());
    link.set_refused(link.refused() + own.refused());
  }
  std::vector<std::string> lines;
  if (transfers > 0) {
    lines.push_back(absl::StrCat(in_place, " of ", transfers,
                                 " transfers produced in place"));
  }
  if (link.reconnections() > 0) {
    lines.push_back(absl::StrCat(
        link.reconnections(), " connections made again: ",
        link.resent_transfers(), " transfers resent, ",
        link.duplicate_transfers(), " of them had arrived already"));
  }
  if (link.refused() > 0) {
    lines.push_back(absl::StrCat(
        link.refused(), " connections or frames of strangers refused"));
  }
  return lines;
}

}  // namespace

Json EdgeJson(const v1::Job& job, const std::string& text) {
  const EdgePath edge = ParseEdge(text);
  Json json;
  json["edge"] = edge.edge;
  json["transport"] = edge.transport;
  json["why"] = edge.why;
  if (const v1::EdgeTraffic* traffic = TrafficOf(job, edge.edge)) {
    json["transfers"] = traffic->transfers();
    json["in_place"] = traffic->in_place();
  }
  return json;
}

Json LinkJson(const v1::LinkCounters& link) {
  Json json;
  json["reconnections"] = link.reconnections();
  json["resent_transfers"] = link.resent_transfers();
  json["duplicate_transfers"] = link.duplicate_transfers();
  json["duplicate_acknowledgements"] = link.duplicate_acknowledgements();
  json["refused"] = link.refused();
  return json;
}

std::vector<std::string> EdgesOfWorker(const v1::Job& job,
                                       const std::string& worker) {
  std::vector<std::string> edges;
  for (const std::string& text : job.edges()) {
    // "activation 0->1": the places of the job's workers.
    const std::string edge = ParseEdge(text).edge;
    const std::vector<std::string> ends =
        absl::StrSplit(edge.substr(edge.rfind(' ') + 1), "->");
    for (const std::string& end : ends) {
      int place = -1;
      if (!absl::SimpleAtoi(end, &place) || place < 0 ||
          place >= job.workers_size() ||
          job.workers(place).worker() != worker) {
        continue;
      }
      edges.push_back(text);
      break;
    }
  }
  return edges;
}

std::string TransportLine(const v1::Job& job) {
  if (job.edges().empty()) return job.transport();
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> paths;
  for (const std::string& text : job.edges()) {
    const EdgePath edge = ParseEdge(text);
    paths[{edge.transport, edge.why}].push_back(edge.edge);
  }
  std::vector<std::string> parts;
  for (const auto& [path, edges] : paths) {
    std::string part = path.first;
    if (!path.second.empty()) absl::StrAppend(&part, " (", path.second, ")");
    if (paths.size() > 1) {
      absl::StrAppend(&part, ": ", absl::StrJoin(edges, ", "));
    }
    parts.push_back(std::move(part));
  }
  for (std::string& line : TrafficLines(job)) parts.push_back(std::move(line));
  return absl::StrJoin(parts, "\n              ");
}

}  // namespace stagecoach::client
