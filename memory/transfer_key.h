#ifndef STAGECOACH_MEMORY_TRANSFER_KEY_H_
#define STAGECOACH_MEMORY_TRANSFER_KEY_H_

#include <cstdint>
#include <string>

#include "base/direction.h"
#include "base/ids.h"

namespace stagecoach::memory {

// Names one transfer of one job. Tied-gradient transfers have microbatch -1.
struct TransferKey {
  Epoch epoch;
  StepIndex step;
  int32_t replica = 0;
  MicrobatchIndex microbatch;
  StageIndex stage;  // the stage that produced it
  Direction direction = Direction::kActivation;

  friend bool operator==(const TransferKey& a, const TransferKey& b);
  friend bool operator<(const TransferKey& a, const TransferKey& b);
};

// "stage 2, step 37, microbatch 5, activation (epoch 1, replica 0)".
std::string ToString(const TransferKey& key);

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_TRANSFER_KEY_H_
