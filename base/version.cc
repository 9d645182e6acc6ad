#include "base/version.h"

namespace stagecoach {

const char kVersion[] = "0.1.0";

}  // namespace stagecoach
