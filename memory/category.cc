#include "memory/category.h"

namespace stagecoach::memory {
namespace {

thread_local Tag current_tag;

}  // namespace

const Tag& CurrentTag() { return current_tag; }

ScopedTag::ScopedTag(const Tag& tag) : saved_(current_tag) {
  current_tag = tag;
}

ScopedTag::~ScopedTag() { current_tag = saved_; }

}  // namespace stagecoach::memory
