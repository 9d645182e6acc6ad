#include "client/signals.h"

#include <unistd.h>

#include "base/process.h"

namespace stagecoach::client {

Interrupt* InterruptOnSignals(int second_exit_code) {
  auto* interrupt = new Interrupt;  // the signal thread never ends
  // Only that one thread counts.
  OnTerminationSignal([interrupt, second_exit_code, count = 0](int) mutable {
    if (++count > 1) _exit(second_exit_code);
    interrupt->Raise(Interrupt::Reason::kUser);
  });
  return interrupt;
}

}  // namespace stagecoach::client
