#ifndef STAGECOACH_BASE_DIRECTION_H_
#define STAGECOACH_BASE_DIRECTION_H_

#include <cstdint>

namespace stagecoach {

// What flows on an edge: activations go to the next stage, gradients to the
// one before.
enum class Direction : uint8_t { kActivation = 0, kGradient = 1 };

constexpr const char* DirectionName(Direction direction) {
  return direction == Direction::kActivation ? "activation" : "gradient";
}

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_DIRECTION_H_
