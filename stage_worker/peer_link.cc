#include "stage_worker/peer_link.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/status.h"

namespace stagecoach::worker {
namespace {

// A sleeper looks at the abort flag again after this, should a ring be lost to
// a peer that died in the middle of it.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(200);
// An edge whose ends are made together waits for those before it in the order.
constexpr absl::Duration kTogetherTimeout = absl::Minutes(2);

memory::TransferKey KeyOf(const transport::TransferHeader& header) {
  memory::TransferKey key;
  key.epoch = header.epoch;
  key.step = header.step;
  key.replica = header.replica;
  key.microbatch = header.microbatch;
  key.stage = header.stage;
  key.direction = header.direction;
  return key;
}

transport::TransferHeader HeaderOf(const memory::TransferKey& key) {
  transport::TransferHeader header;
  header.epoch = key.epoch;
  header.step = key.step;
  header.replica = key.replica;
  header.microbatch = key.microbatch;
  header.stage = key.stage;
  header.direction = key.direction;
  return header;
}

memory::Tag ReceiveTag() {
  memory::Tag tag;
  tag.category = memory::Category::kWireReceive;
  return tag;
}

}  // namespace

std::string LinkEdge::Name() const {
  return absl::StrCat(tied ? "tied" : DirectionName(id.direction), " ",
                      id.from.value(), "->", id.to.value());
}

PeerLink::PeerLink(const PeerLinkOptions& options) : options_(options) {}

absl::StatusOr<std::unique_ptr<PeerLink>> PeerLink::Create(
    const PeerLinkOptions& options) {
  auto link = std::unique_ptr<PeerLink>(new PeerLink(options));
  SC_ASSIGN_OR_RETURN(link->doorbell_, transport::Doorbell::Create());
  link->ListEdges();
  if (link->ins_.empty() && link->outs_.empty()) return link;
  SC_RETURN_IF_ERROR(link->ChoosePaths());
  SC_RETURN_IF_ERROR(link->OpenEndpoints());
  SC_RETURN_IF_ERROR(link->OpenReceives());
  link->progress_ = std::thread([raw = link.get()] { raw->ProgressLoop(); });
  return link;
}

PeerLink::~PeerLink() {
  Stop();
  if (receive_pool_bytes_ > 0) {
    options_.allocator->Discharge(ReceiveTag(), receive_pool_bytes_);
  }
}

void PeerLink::Stop() {
  if (!stopping_.exchange(true)) LogTraffic();
  if (doorbell_ != nullptr) doorbell_->Ring();
  if (progress_.joinable()) progress_.join();
  for (auto& out : outs_) out->end.reset();
  for (auto& in : ins_) {
    in->end.reset();
    in->arrived.clear();
  }
}

void PeerLink::LogTraffic() const {
  const LinkTraffic traffic = Traffic();
  for (const EdgeTraffic& edge : traffic.edges) {
    if (edge.transfers == 0) continue;
    LogInfo(absl::StrCat("edge ", edge.edge, " over ", edge.transport, ": ",
                         edge.transfers, " transfers, ", edge.in_place,
                         " of them produced in place"));
  }
  if (traffic.link.reconnections == 0) return;
  LogInfo(absl::StrCat(
      traffic.link.reconnections,
      " connections were made again: ", traffic.link.resent_transfers,
      " transfers resent, ", traffic.link.duplicate_transfers,
      " arrived a second time and were dropped"));
}

void PeerLink::ListEdges() {
  auto add = [this](const LinkEdge& edge, int depth) {
    if (edge.id.to == options_.worker || edge.id.from == options_.worker) {
      edge_order_.push_back(edge.Name());
    }
    if (edge.id.to == options_.worker) {
      auto in = std::make_unique<In>();
      in->edge = edge;
      in->depth = depth;
      ins_.push_back(std::move(in));
    }
    if (edge.id.from == options_.worker) {
      auto out = std::make_unique<Out>();
      out->edge = edge;
      outs_.push_back(std::move(out));
    }
  };
  const schedule::Schedule& schedule = *options_.schedule;
  for (const schedule::EdgePlan& plan : schedule.edges) {
    LinkEdge edge;
    edge.id = plan.edge;
    add(edge, plan.receive_depth);
  }
  const WorkerIndex owner = schedule.placement.front();
  const WorkerIndex other = schedule.placement.back();
  if (!options_.tied_embeddings || owner == other) return;
  for (bool to_owner : {true, false}) {
    LinkEdge edge;
    edge.tied = true;
    edge.id.from = to_owner ? other : owner;
    edge.id.to = to_owner ? owner : other;
    edge.id.direction = Direction::kGradient;
    add(edge, 1);
  }
}

absl::Status PeerLink::ChoosePaths() {
  std::map<WorkerIndex, WorkerPaths> known;
  auto paths_of = [&](WorkerIndex worker) -> absl::StatusOr<WorkerPaths> {
    const auto found = known.find(worker);
    if (found != known.end()) return found->second;
    SC_ASSIGN_OR_RETURN(known[worker], options_.paths_of(worker));
    return known[worker];
  };
  auto choose = [&](const LinkEdge& edge, PathChoice* path) -> absl::Status {
    SC_ASSIGN_OR_RETURN(const WorkerPaths from, paths_of(edge.id.from));
    SC_ASSIGN_OR_RETURN(const WorkerPaths to, paths_of(edge.id.to));
    auto choice =
        ChoosePath(options_.transports, from, to, options_.forced_transport);
    if (!choice.ok()) {
      return Annotate(
          choice.status(),
          absl::StrCat("edge ", edge.Name(), " from ", PeerName(edge.id.from),
                       " to ", PeerName(edge.id.to)));
    }
    *path = *std::move(choice);
    return absl::OkStatus();
  };
  for (auto& in : ins_) SC_RETURN_IF_ERROR(choose(in->edge, &in->path));
  for (auto& out : outs_) SC_RETURN_IF_ERROR(choose(out->edge, &out->path));
  return absl::OkStatus();
}

absl::Status PeerLink::OpenEndpoints() {
  transport::EndpointOptions endpoint;
  endpoint.doorbell = doorbell_.get();
  endpoint.epoch = options_.epoch;
  endpoint.on_edge_lost = [this](const std::string& edge,
                                 const absl::Status& status) {
    OnEdgeLost(edge, status);
  };
  endpoint.control_channels = options_.control_channels;
  std::set<std::string> kinds;
  for (const auto& in : ins_) kinds.insert(in->path.kind);
  for (const auto& out : outs_) kinds.insert(out->path.kind);
  for (const Transport& transport : options_.transports) {
    if (kinds.count(transport.kind) == 0) continue;
    endpoint.opening_order = EdgesOf(transport.kind);
    SC_ASSIGN_OR_RETURN(auto opened, transport.factory(endpoint));
    endpoints_.push_back(std::move(opened));
  }
  return absl::OkStatus();
}

std::vector<std::string> PeerLink::EdgesOf(const std::string& kind) const {
  std::vector<std::string> edges;
  for (const std::string& name : edge_order_) {
    for (const auto& in : ins_) {
      if (in->edge.Name() == name && in->path.kind == kind) {
        edges.push_back(name);
      }
    }
    for (const auto& out : outs_) {
      if (out->edge.Name() == name && out->path.kind == kind) {
        edges.push_back(name);
      }
    }
  }
  return edges;
}

transport::Endpoint* PeerLink::EndpointOf(const PathChoice& path) const {
  for (const auto& endpoint : endpoints_) {
    if (endpoint->kind() == path.kind) return endpoint.get();
  }
  return nullptr;
}

absl::Status PeerLink::OpenReceives() {
  for (auto& in : ins_) {
    transport::EdgeOptions edge;
    edge.name = in->edge.Name();
    edge.poison_returned = options_.poison_returned_slots;
    if (in->edge.tied) {
      edge.slots = 1;
      edge.slot_bytes = options_.tied_bytes;
    } else {
      for (const schedule::EdgePlan& plan : options_.schedule->edges) {
        if (plan.edge == in->edge.id) edge.slots = plan.pool_slots;
      }
      edge.slot_bytes = options_.boundary_bytes;
    }
    SC_ASSIGN_OR_RETURN(in->end, EndpointOf(in->path)->OpenReceive(edge));
    receive_pool_bytes_ += in->end->pool_bytes();
    options_.allocator->Charge(ReceiveTag(), in->end->pool_bytes());
  }
  return absl::OkStatus();
}

std::vector<PeerLink::Description> PeerLink::Describe() const {
  std::vector<Description> descriptions;
  for (const auto& endpoint : endpoints_) {
    descriptions.push_back(
        Description{std::string(endpoint->kind()), endpoint->Describe()});
  }
  return descriptions;
}

absl::Status PeerLink::Connect(const Resolver& resolver,
                               absl::Duration timeout) {
  for (auto& out : outs_) {
    const WorkerIndex to = out->edge.id.to;
    const std::string& kind = out->path.kind;
    transport::Endpoint* const endpoint = EndpointOf(out->path);
    SC_ASSIGN_OR_RETURN(const std::string peer, resolver(to, kind));
    if (absl::Status viable = endpoint->IsViable(peer); !viable.ok()) {
      return Annotate(viable, absl::StrCat("edge ", out->edge.Name(), " to ",
                                           PeerName(to), ": ", kind));
    }
    transport::EdgeOptions edge;
    edge.name = out->edge.Name();
    auto end = endpoint->OpenSend(
        edge, peer,
        [this](const transport::TransferHeader& header) {
          OnAcknowledged(header);
        },
        kind == "nccl" ? kTogetherTimeout : timeout);
    if (!end.ok()) {
      return Annotate(end.status(), absl::StrCat("edge ", out->edge.Name(),
                                                 " to ", PeerName(to)));
    }
    out->end = *std::move(end);
  }
  for (auto& in : ins_) {
    for (int i = 0; i < in->depth; ++i) PostReceive(in.get());
  }
  return absl::OkStatus();
}

std::vector<std::string> PeerLink::EdgeSummaries() const {
  std::vector<std::string> edges;
  edges.reserve(outs_.size());
  for (const auto& out : outs_) {
    edges.push_back(absl::StrCat(out->edge.Name(), ": ", out->path.kind, " (",
                                 out->path.why, ")"));
  }
  return edges;
}

absl::Status PeerLink::Send(const LinkEdge& edge,
                            const memory::TransferKey& key,
                            std::vector<transport::OutgoingTensor> tensors) {
  SC_FAILPOINT("worker.send");
  Out* out = FindOut(edge);
  if (out == nullptr) {
    return absl::InternalError(
        absl::StrCat("no edge ", edge.Name(), " in the schedule"));
  }
  SC_RETURN_IF_ERROR(options_.ledger->StartSending(key));
  ++out->transfers;
  out->end->PostSend(HeaderOf(key), std::move(tensors), OnSent(key));
  return absl::OkStatus();
}

transport::SendEdge::LocalCompletion PeerLink::OnSent(
    const memory::TransferKey& key) {
  return [this, key](const absl::Status& status) {
    // After an abort the entry goes with its epoch instead.
    if (!status.ok()) return;
    options_.ledger->CompleteLocally(key);
    doorbell_->Ring();
  };
}

std::optional<transport::WritableSlot> PeerLink::TakeSlot(
    const LinkEdge& edge) {
  Out* const out = FindOut(edge);
  return out == nullptr ? std::nullopt : out->end->TakeSlot();
}

void PeerLink::ReturnSlot(const LinkEdge& edge,
                          const transport::WritableSlot& slot) {
  if (Out* const out = FindOut(edge); out != nullptr) {
    out->end->ReturnSlot(slot);
  }
}

absl::Status PeerLink::SendFromSlot(const LinkEdge& edge,
                                    const memory::TransferKey& key,
                                    const TensorDescriptor& tensor,
                                    const transport::WritableSlot& slot) {
  SC_FAILPOINT("worker.send");
  Out* const out = FindOut(edge);
  if (out == nullptr) {
    return absl::InternalError(
        absl::StrCat("no edge ", edge.Name(), " to send a slot of"));
  }
  SC_RETURN_IF_ERROR(options_.ledger->StartSending(key));
  ++out->transfers;
  ++out->in_place;
  out->end->PostSendFromSlot(HeaderOf(key), tensor, slot, OnSent(key));
  return absl::OkStatus();
}

void LinkTraffic::Add(const LinkTraffic& other) {
  for (const EdgeTraffic& added : other.edges) {
    const auto found = std::find_if(
        edges.begin(), edges.end(),
        [&added](const EdgeTraffic& edge) { return edge.edge == added.edge; });
    if (found == edges.end()) {
      edges.push_back(added);
    } else {
      found->transfers += added.transfers;
      found->in_place += added.in_place;
    }
  }
  link.reconnections += other.link.reconnections;
  link.resent_transfers += other.link.resent_transfers;
  link.duplicate_transfers += other.link.duplicate_transfers;
  link.duplicate_acknowledgements += other.link.duplicate_acknowledgements;
  for (size_t i = 0; i < link.refused_by.size(); ++i) {
    link.refused_by[i] += other.link.refused_by[i];
  }
}

LinkTraffic PeerLink::Traffic() const {
  LinkTraffic traffic;
  for (const auto& out : outs_) {
    EdgeTraffic edge;
    edge.edge = out->edge.Name();
    edge.transport = out->path.kind;
    edge.transfers = out->transfers;
    edge.in_place = out->in_place;
    traffic.edges.push_back(std::move(edge));
  }
  for (const auto& endpoint : endpoints_) {
    LinkTraffic one;
    one.link = endpoint->counters();
    traffic.Add(one);
  }
  return traffic;
}

std::optional<transport::ReceivedTransfer> PeerLink::Take(
    const LinkEdge& edge) {
  In* in = FindIn(edge);
  if (in == nullptr) return std::nullopt;
  std::optional<transport::ReceivedTransfer> transfer;
  {
    MutexLock lock(&mu_);
    if (in->arrived.empty()) return std::nullopt;
    transfer = std::move(in->arrived.front());
    in->arrived.pop_front();
  }
  PostReceive(in);
  return transfer;
}

void PeerLink::PostReceive(In* in) {
  if (in->end == nullptr) return;  // stopped
  in->end->PostReceive(
      [this, in](absl::StatusOr<transport::ReceivedTransfer> transfer) {
        OnArrived(in, std::move(transfer));
      });
}

void PeerLink::OnArrived(In* in,
                         absl::StatusOr<transport::ReceivedTransfer> transfer) {
  SC_FAILPOINT("worker.acknowledge");
  // An error here follows an abort or a loss, which OnEdgeLost reports.
  if (!transfer.ok()) return;
  const transport::TransferHeader header = transfer->header;
  {
    MutexLock lock(&mu_);
    in->arrived.push_back(*std::move(transfer));
  }
  in->end->Acknowledge(header);
  doorbell_->Ring();
}

void PeerLink::OnAcknowledged(const transport::TransferHeader& header) {
  SC_FAILPOINT("worker.release");
  options_.ledger->Acknowledge(KeyOf(header));
  doorbell_->Ring();
}

void PeerLink::OnEdgeLost(const std::string& edge, const absl::Status& status) {
  std::string peer;
  for (const auto& in : ins_) {
    if (in->edge.Name() == edge) peer = PeerName(in->edge.id.from);
  }
  for (const auto& out : outs_) {
    if (out->edge.Name() == edge) peer = PeerName(out->edge.id.to);
  }
  const absl::Status lost = absl::UnavailableError(absl::StrCat(
      "edge ", edge, " to ", peer, " was lost: ", status.message()));
  if (!options_.abort->Set(lost, peer)) return;
  doorbell_->Ring();
  if (options_.on_aborted) options_.on_aborted();
}

absl::Status PeerLink::WaitUntil(const std::function<bool()>& condition) {
  for (;;) {
    const uint32_t seen = doorbell_->Count();
    for (const auto& endpoint : endpoints_) endpoint->Progress();
    if (options_.abort->IsSet()) return options_.abort->status();
    if (condition()) return absl::OkStatus();
    doorbell_->Wait(seen, kLongestSleep);
  }
}

void PeerLink::Abort() {
  for (const auto& endpoint : endpoints_) {
    endpoint->Abort(options_.abort->status());
  }
  doorbell_->Ring();
}

void PeerLink::ProgressLoop() {
  pthread_setname_np(pthread_self(), "progress");
  while (!stopping_) {
    const uint32_t seen = doorbell_->Count();
    for (const auto& endpoint : endpoints_) endpoint->Progress();
    if (stopping_) return;
    doorbell_->Wait(seen, kLongestSleep);
  }
}

PeerLink::In* PeerLink::FindIn(const LinkEdge& edge) {
  for (auto& in : ins_) {
    if (in->edge == edge) return in.get();
  }
  return nullptr;
}

PeerLink::Out* PeerLink::FindOut(const LinkEdge& edge) {
  for (auto& out : outs_) {
    if (out->edge == edge && out->end != nullptr) return out.get();
  }
  return nullptr;
}

}  // namespace stagecoach::worker
