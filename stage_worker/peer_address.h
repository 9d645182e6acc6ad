#ifndef STAGECOACH_STAGE_WORKER_PEER_ADDRESS_H_
#define STAGECOACH_STAGE_WORKER_PEER_ADDRESS_H_

#include <string>

#include "base/ids.h"

namespace stagecoach::worker {

// A peer as the coordinator names it.
struct PeerAddress {
  std::string worker;
  Incarnation incarnation;
  std::string address;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PEER_ADDRESS_H_
