#ifndef STAGECOACH_BASE_VERSION_H_
#define STAGECOACH_BASE_VERSION_H_

namespace stagecoach {

// The semantic version, as the file VERSION at the top of the tree says (a test
// compares them).
extern const char kVersion[];

// Processes speak to each other only if this is the same.
inline constexpr int kProtocolVersion = 2;

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_VERSION_H_
