#ifndef STAGECOACH_CLIENT_SIGNALS_H_
#define STAGECOACH_CLIENT_SIGNALS_H_

#include "client/interrupt.h"

namespace stagecoach::client {

// From now on Ctrl-C and SIGTERM raise Interrupt::Reason::kUser on the result,
// which lives for ever; a second one ends the process at once with
// `second_exit_code` (children of a local cluster die with it). Call it once,
// before any other thread is started.
Interrupt* InterruptOnSignals(int second_exit_code);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_SIGNALS_H_
