#ifndef STAGECOACH_TRANSPORT_TESTING_TEST_PEER_H_
#define STAGECOACH_TRANSPORT_TESTING_TEST_PEER_H_

#include <string>
#include <vector>

#include "transport/transport.h"

namespace stagecoach::transport::testing {

// Plays the other process of a test with two, over endpoints of `factory`:
//
//   receive [BYTES]     opens the receiving end "e" of two slots of so many
//                       bytes, prints its description, receives and
//                       acknowledges for ever
//   mute                the same, but posts no receive
//   send N PEER         sends N transfers to PEER, waits for all
//                       acknowledgements, prints "done" and ends
//   send-large N PEER   sends one of N bytes
//   hold PEER           connects to PEER, prints its own description, waits
//   die-in-copy PEER    sends a tensor whose second page cannot be read
//
// `arguments` are those of main, without the program's name; the last is the
// one that ChildProcess adds. Ends with its parent. Returns main's status.
int RunTestPeer(const EndpointFactory& factory,
                std::vector<std::string> arguments);

}  // namespace stagecoach::transport::testing

#endif  // STAGECOACH_TRANSPORT_TESTING_TEST_PEER_H_
