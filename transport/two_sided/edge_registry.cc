#include "transport/two_sided/edge_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace stagecoach::transport::two_sided {

EdgeRegistry::EdgeRegistry(const EndpointOptions& options,
                           std::shared_ptr<Shared> shared)
    : options_(options), shared_(std::move(shared)) {
  shared_->on_broken = [this](EdgeEnd* end, const absl::Status& why) {
    OnBroken(end, why);
  };
  shared_->on_turn = [this] { TakeTurns(); };
}

ring::EdgeContext EdgeRegistry::Context(const std::string& edge) const {
  ring::EdgeContext context;
  context.name = edge;
  context.doorbell = options_.doorbell;
  context.on_edge_lost = options_.on_edge_lost;
  return context;
}

// --- the table ---------------------------------------------------------------

absl::Status EdgeRegistry::AddReceive(std::shared_ptr<ReceiveEnd> end) {
  MutexLock lock(&mu_);
  if (receives_.count(end->name()) != 0) {
    return absl::AlreadyExistsError(absl::StrCat(
        "edge \"", end->name(), "\" has a receiving end here already"));
  }
  SC_RETURN_IF_ERROR(AddLocked(end));
  receives_[end->name()] = std::move(end);
  return absl::OkStatus();
}

absl::Status EdgeRegistry::AddSend(std::shared_ptr<SendEnd> end) {
  MutexLock lock(&mu_);
  return AddLocked(std::move(end));
}

absl::Status EdgeRegistry::AddLocked(std::shared_ptr<EdgeEnd> end) {
  SC_RETURN_IF_ERROR(status_);
  auto ends = std::make_shared<Ends>(*ends_);
  ends->push_back(std::move(end));
  ends_ = std::move(ends);
  return absl::OkStatus();
}

void EdgeRegistry::Close(EdgeEnd* end) {
  // Outside the lock: may run callbacks.
  end->Close();
  MutexLock lock(&mu_);
  auto ends = std::make_shared<Ends>(*ends_);
  ends->erase(
      std::remove_if(ends->begin(), ends->end(),
                     [end](const auto& each) { return each.get() == end; }),
      ends->end());
  ends_ = std::move(ends);
  const auto receive = receives_.find(end->name());
  if (receive != receives_.end() && receive->second.get() == end) {
    receives_.erase(receive);
  }
}

std::shared_ptr<const EdgeRegistry::Ends> EdgeRegistry::ends() const {
  MutexLock lock(&mu_);
  return ends_;
}

absl::Status EdgeRegistry::status() const {
  MutexLock lock(&mu_);
  return status_;
}

std::shared_ptr<ReceiveEnd> EdgeRegistry::FindReceive(
    const std::string& edge, std::string* known) const {
  MutexLock lock(&mu_);
  const auto found = receives_.find(edge);
  if (found != receives_.end()) return found->second;
  *known =
      absl::StrJoin(receives_, ", ", [](std::string* out, const auto& receive) {
        absl::StrAppend(out, "\"", receive.first, "\"");
      });
  return nullptr;
}

bool EdgeRegistry::Progress() {
  return gate_.Run(options_.doorbell, [this] {
    bool any = false;
    const std::shared_ptr<const Ends> snapshot = ends();
    for (const std::shared_ptr<EdgeEnd>& end : *snapshot) {
      any = end->Progress() || any;
    }
    return any;
  });
}

void EdgeRegistry::Abort(absl::Status status) {
  if (status.ok()) status = absl::AbortedError("aborted");
  {
    MutexLock lock(&mu_);
    if (!status_.ok()) return;
    status_ = status;
  }
  const std::shared_ptr<const Ends> snapshot = ends();
  for (const std::shared_ptr<EdgeEnd>& end : *snapshot) end->Abort(status);
  shared_->reactor.Post([this] { AbortAll(); });
  options_.doorbell->Ring();
}

// --- the reactor's thread ----------------------------------------------------

Activity EdgeRegistry::Step() {
  Activity most = Activity::kIdle;
  const std::shared_ptr<const Ends> snapshot = ends();
  for (const std::shared_ptr<EdgeEnd>& end : *snapshot) {
    most = std::max(most, end->Step());
  }
  return most;
}

void EdgeRegistry::OnMessage(const std::string& from,
                             const std::string& bytes) {
  const absl::StatusOr<ControlMessage> message = DecodeControl(bytes);
  if (!message.ok()) {
    refusals_.Add(Refusal::kProtocol);
    return OnLost(from, message.status());
  }
  if (message->kind == ControlKind::kOpen) return OnOpen(from, *message);
  const Way way = message->to_receiver ? Way::kReceive : Way::kSend;
  const std::shared_ptr<const Ends> snapshot = ends();
  for (const std::shared_ptr<EdgeEnd>& end : *snapshot) {
    if (end->way() == way && end->connection() == message->connection &&
        end->peer() == from && end->name() == message->edge) {
      return end->OnMessage(*message);
    }
  }
  if (message->kind != ControlKind::kBye) return;  // of an edge that is over
  turns_.erase(std::remove_if(turns_.begin(), turns_.end(),
                              [&](const Turn& turn) {
                                return turn.sender == from &&
                                       turn.connection == message->connection;
                              }),
               turns_.end());
}

void EdgeRegistry::OnLost(const std::string& peer, const absl::Status& why) {
  const std::shared_ptr<const Ends> snapshot = ends();
  for (const std::shared_ptr<EdgeEnd>& end : *snapshot) {
    // The first takes the others along.
    if (end->peer() == peer) end->OnPeerLost(why);
  }
}

void EdgeRegistry::OpenInTurn(const std::shared_ptr<SendEnd>& end) {
  if (end->over()) return end->Open();  // aborted meanwhile
  Turn turn;
  turn.edge = end->name();
  turn.start = [end] { end->Open(); };
  turns_.push_back(std::move(turn));
  TakeTurns();
}

void EdgeRegistry::OnOpen(const std::string& from,
                          const ControlMessage& message) {
  Turn turn;
  turn.edge = message.edge;
  turn.sender = from;
  turn.connection = message.connection;
  turn.start = [this, from, message] { Admit(from, message); };
  turns_.push_back(std::move(turn));
  TakeTurns();
}

void EdgeRegistry::Admit(const std::string& from,
                         const ControlMessage& message) {
  std::string known;
  const std::shared_ptr<ReceiveEnd> end = FindReceive(message.edge, &known);
  absl::Status refusal = status();
  if (refusal.ok()) {
    refusal =
        end != nullptr
            ? end->CheckFree()
            : absl::NotFoundError(absl::StrCat(
                  "the peer has no receiving end of edge \"", message.edge,
                  "\"; it has ", known.empty() ? "none" : known));
  }
  if (refusal.ok()) {
    return end->Welcome(from, message.connection, message.text);
  }
  refusals_.Add(end == nullptr ? Refusal::kUnknownEdge : Refusal::kProtocol);
  ControlMessage refuse;
  refuse.kind = ControlKind::kRefuse;
  refuse.edge = message.edge;
  refuse.connection = message.connection;
  refuse.number = static_cast<uint64_t>(refusal.code());
  refuse.text = std::string(refusal.message());
  shared_->channel->Send(from, EncodeControl(refuse));
}

// Every endpoint makes its communicators in one global order, so the first that
// is not there yet has both its ends waiting for it, whatever the others do.
bool EdgeRegistry::HasItsTurn(const std::string& edge) const {
  const std::vector<std::string>& order = options_.opening_order;
  const auto own = std::find(order.begin(), order.end(), edge);
  if (own == order.end()) return true;
  const std::shared_ptr<const Ends> snapshot = ends();
  return std::all_of(order.begin(), own, [&](const std::string& earlier) {
    return std::any_of(snapshot->begin(), snapshot->end(),
                       [&](const std::shared_ptr<EdgeEnd>& end) {
                         return end->name() == earlier && end->had_its_turn();
                       });
  });
}

void EdgeRegistry::TakeTurns() {
  // Starting one may end it at once, which comes back here.
  if (taking_turns_) return;
  taking_turns_ = true;
  for (bool started = true; started;) {
    const auto next = std::find_if(
        turns_.begin(), turns_.end(),
        [this](const Turn& turn) { return HasItsTurn(turn.edge); });
    started = next != turns_.end();
    if (!started) break;
    const Turn turn = std::move(*next);
    turns_.erase(next);
    turn.start();
  }
  taking_turns_ = false;
}

void EdgeRegistry::OnBroken(EdgeEnd* end, const absl::Status& why) {
  // Reports it first: it is the cause of what fails.
  end->PeerEnded(why, /*lost=*/true);
  Abort(absl::AbortedError(
      absl::StrCat("edge \"", end->name(), "\" was lost: ", why.message())));
  // The edge may be one that Abort() had no share in, and its transfers must
  // not wait.
  AbortAll();
}

void EdgeRegistry::AbortAll() {
  turns_.clear();
  const absl::Status why = status();
  const std::shared_ptr<const Ends> snapshot = ends();
  std::vector<Communicator*> communicators;
  for (const std::shared_ptr<EdgeEnd>& end : *snapshot) {
    if (end->over()) continue;
    end->PrepareAbort(why);
    if (end->communicator() != nullptr) {
      communicators.push_back(end->communicator());
    }
  }
  if (!communicators.empty()) {
    AbortGuarded(*shared_, absl::StrCat(communicators.size(), " edges"),
                 communicators);
  }
  for (const std::shared_ptr<EdgeEnd>& end : *snapshot) {
    if (!end->over()) end->Aborted();
  }
}

}  // namespace stagecoach::transport::two_sided
