#ifndef STAGECOACH_TRANSPORT_TCP_INBOUND_H_
#define STAGECOACH_TRANSPORT_TCP_INBOUND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/receive_core.h"

namespace stagecoach::transport::tcp {

// The connection of all edges from one peer to this endpoint. The peer dials;
// after a break this end waits for it to come back, and loses its edges if it
// does not.
class InboundConnection final
    : public Connection,
      public std::enable_shared_from_this<InboundConnection> {
 public:
  struct Options {
    // The receiving end of an edge; kNotFound.
    std::function<absl::StatusOr<std::shared_ptr<ReceiveCore>>(
        const std::string& name)>
        find;
    // On the reactor: it has neither stream nor edges.
    std::function<void()> on_gone;
    bool checksum = false;  // payloads must have one
    ReconnectPolicy reconnect;
  };
  InboundConnection(Reactor* reactor, Counters* counters, Options options);

  // --- on the reactor ---
  // A greeted stream: the first, or one instead of a broken one.
  void Adopt(std::unique_ptr<ByteStream> stream, bool checksum)
      SC_EXCLUDES(mu_);
  absl::Status OnFrame(const Frame& frame) override;
  absl::StatusOr<std::vector<iovec>> OnPayload(const Frame& frame) override;
  absl::Status OnPayloadEnd(bool cancelled) override;

 private:
  class Port;

  void OnBroken(const absl::Status& status) override SC_EXCLUDES(mu_);
  std::weak_ptr<Connection> Self() override { return weak_from_this(); }

  void OnOpenEdge(uint32_t index, const OpenEdge& open) SC_EXCLUDES(mu_);
  absl::StatusOr<std::shared_ptr<ReceiveCore>> Admit(uint32_t index,
                                                     const OpenEdge& open)
      SC_EXCLUDES(mu_);
  void OnResumed() SC_EXCLUDES(mu_);
  void EndEdge(uint32_t index, const absl::Status& status, bool lost)
      SC_EXCLUDES(mu_);
  void LoseEdges(const absl::Status& status) SC_EXCLUDES(mu_);
  // Null for one that has been closed; kInvalidArgument, counted, for one that
  // never was.
  absl::StatusOr<std::shared_ptr<ReceiveCore>> Find(uint32_t index)
      SC_EXCLUDES(mu_);
  void Erase(uint32_t index) SC_EXCLUDES(mu_);
  absl::Status Misbehaved(const absl::Status& status);

  const Options options_;
  // On the reactor only.
  bool was_up_ = false;
  std::shared_ptr<ReceiveCore> reading_;  // whose payload comes
  std::set<uint32_t> unresumed_;

  mutable Mutex mu_;
  uint32_t next_index_ SC_GUARDED_BY(mu_) = 0;  // above all that were opened
  std::map<uint32_t, std::shared_ptr<ReceiveCore>> edges_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_INBOUND_H_
