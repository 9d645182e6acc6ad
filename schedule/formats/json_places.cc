#include "schedule/formats/json_places.h"

namespace stagecoach::schedule::formats {
namespace {

// Never recurses: nesting may be as deep as the input is long.
class Cursor {
 public:
  Cursor(absl::string_view text, size_t at) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Step() { ++at_; }

  void SkipSpace() {
    while (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' ||
           Peek() == '\r') {
      ++at_;
    }
  }

  void SkipString() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    ++at_;
  }

  void SkipValue() {
    int depth = 0;
    do {
      const char c = Peek();
      if (c == '"') {
        SkipString();
        continue;
      }
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      ++at_;
    } while (at_ < text_.size() && (depth > 0 || !AtEndOfValue()));
  }

 private:
  bool AtEndOfValue() const {
    const char c = Peek();
    return c == ',' || c == ']' || c == '}';
  }

  const absl::string_view text_;
  size_t at_;
};

}  // namespace

std::vector<JsonMember> JsonMembers(absl::string_view text, size_t at) {
  std::vector<JsonMember> members;
  Cursor cursor(text, at);
  cursor.SkipSpace();
  cursor.Step();
  cursor.SkipSpace();
  while (cursor.Peek() == '"') {
    JsonMember member;
    member.name_at = cursor.at();
    cursor.SkipString();
    member.name =
        text.substr(member.name_at + 1, cursor.at() - member.name_at - 2);
    cursor.SkipSpace();
    cursor.Step();
    cursor.SkipSpace();
    member.value_at = cursor.at();
    members.push_back(member);
    cursor.SkipValue();
    if (cursor.Peek() == ',') cursor.Step();
    cursor.SkipSpace();
  }
  return members;
}

std::vector<size_t> JsonElements(absl::string_view text, size_t at) {
  std::vector<size_t> elements;
  Cursor cursor(text, at);
  cursor.SkipSpace();
  cursor.Step();
  cursor.SkipSpace();
  while (cursor.at() < text.size() && cursor.Peek() != ']') {
    elements.push_back(cursor.at());
    cursor.SkipValue();
    if (cursor.Peek() == ',') cursor.Step();
    cursor.SkipSpace();
  }
  return elements;
}

}  // namespace stagecoach::schedule::formats
