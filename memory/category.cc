#include "memory/category.h"

namespace stagecoach::memory {
namespace {

thread_local Tag current_tag;

}  // namespace

const char* CategoryName(Category category) {
  switch (category) {
    case Category::kParameter:
      return "parameter";
    case Category::kGradient:
      return "gradient";
    case Category::kOptimizer:
      return "optimizer";
    case Category::kActivation:
      return "activation";
    case Category::kWireSend:
      return "wire_send";
    case Category::kWireReceive:
      return "wire_receive";
    case Category::kWorkspace:
      return "workspace";
    case Category::kOther:
      return "other";
  }
  return "other";
}

const Tag& CurrentTag() { return current_tag; }

ScopedTag::ScopedTag(const Tag& tag) : saved_(current_tag) {
  current_tag = tag;
}

ScopedTag::~ScopedTag() { current_tag = saved_; }

}  // namespace stagecoach::memory
