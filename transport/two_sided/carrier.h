#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_CARRIER_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_CARRIER_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// What a library that moves payloads (NCCL, UCX) is to the edges that use it:
// both ends of an edge name their buffers for each transfer, and the library
// brings the one into the other. Everything else that the ends say to each
// other goes through a control channel.
namespace stagecoach::transport::two_sided {

enum class Way { kSend, kReceive };

// A point in the work of the engine's device, which the library waits for.
class Mark {
 public:
  virtual ~Mark() = default;
};

struct Piece {
  void* data = nullptr;
  size_t bytes = 0;
};

// One transfer for the library.
struct GroupTransfer {
  uint64_t sequence = 0;
  std::vector<Piece> pieces;
  // Nothing of it is read or written before; null: at once.
  std::shared_ptr<const Mark> after;
};

// Memory of a receiving end, where the library can write; given back by the
// destructor on whatever thread that runs. Immutable but for its bytes.
class PoolMemory {
 public:
  virtual ~PoolMemory() = default;
  virtual char* data() const = 0;
  virtual size_t bytes() const = 0;
  // Fills a part with `byte`, and waits until it is filled.
  virtual absl::Status Fill(size_t offset, size_t bytes, int byte) const = 0;
};

// The library's connection between the two ends of an edge, and the transfers
// on it, one after the other.
//
//   kNew ─ Begin ─▶ kInitialising ─▶ kReady ─ Finalize ─▶ kFinalizing ─▶ kGone
//                         └── Carrier::Abort, from every state ─────────▶ kGone
//
// Nonblocking: every call starts something, Step() sees how far it is.
// Single-threaded: all calls, the destructor's too, on the thread that owns it.
// Buffers of transfers must stay as they are until Step() says that these are
// complete, or until Abort() has returned.
class Communicator {
 public:
  enum class State { kNew, kInitialising, kReady, kFinalizing, kGone };

  // Gone or new only.
  virtual ~Communicator() = default;

  // In kNew, once: what Begin() of the other end wants to know of this one. The
  // sender's is asked for first.
  virtual absl::StatusOr<std::string> Introduce() = 0;
  // kInvalidArgument if `other` is no introduction.
  virtual absl::Status Begin(const std::string& other) = 0;
  // A pool that this communicator will use often; after kReady.
  virtual absl::Status Register(const PoolMemory& pool) = 0;
  virtual void Submit(GroupTransfer transfer) = 0;
  // Moves on what can move. Adds the sequences of transfers that are complete,
  // in order. An error is final for the communicator: abort it. kUnavailable:
  // it may be only the other end's going.
  virtual absl::Status Step(std::vector<uint64_t>* completed) = 0;
  // Everything submitted is complete; nothing is submitted any more.
  virtual absl::Status Finalize() = 0;

  virtual State state() const = 0;
  // Transfers that are not complete.
  virtual size_t outstanding() const = 0;
};

// The library as one endpoint uses it. Calls that are not said to be of any
// thread belong to the endpoint's one thread (Reactor).
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Any thread. "nccl"
  virtual absl::string_view kind() const = 0;
  // Any thread. What ends a communicator, for messages: "ncclCommAbort".
  virtual absl::string_view abort_call() const = 0;
  // Any thread. What to look at when a communicator is not made in time.
  virtual absl::string_view connect_advice() const = 0;

  // Once, first on the endpoint's thread.
  virtual absl::Status Prepare() { return absl::OkStatus(); }
  // Any thread. kResourceExhausted if there is not so much, kFailedPrecondition
  // if the engine could not read it.
  virtual absl::StatusOr<std::shared_ptr<PoolMemory>> AllocatePool(
      size_t bytes) = 0;
  // Any thread. Where the engine's work is now; null where it is done already.
  virtual absl::StatusOr<std::shared_ptr<const Mark>> MarkWork() {
    return nullptr;
  }
  // `name`: of the edge.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> NewCommunicator(
      Way way, const std::string& name) = 0;
  // Ends all that is under way on all of them, as one group: one by one they
  // might wait for each other. May never return; see StuckGuard. After an error
  // nothing is known of what still reads or writes their buffers.
  virtual absl::Status Abort(
      const std::vector<Communicator*>& communicators) = 0;

  // Any thread. Whether Arm() finds out when there is something to do; else the
  // thread looks again and again while something is under way.
  virtual bool wakes() const { return false; }
  // Before the thread sleeps: adds what it shall wake up for. False if there is
  // something to do already.
  virtual bool Arm(std::vector<pollfd>* /*events*/) { return true; }
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_CARRIER_H_
