// Writes the pictures of docs/schedules.md into the directory that is given.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedule/formats/draw_svg.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"

namespace stagecoach::schedule {
namespace {

bool WritePicture(const std::string& kind, const std::string& directory) {
  GenerateOptions shape;
  shape.workers = 4;
  shape.stages_per_worker = kind == "1f1b" ? 1 : 2;
  shape.microbatches = 8;
  const auto lowered = Lower(*Generate(kind, shape), {});
  if (!lowered.ok()) return false;
  const auto svg = DrawSvg(*lowered);
  if (!svg.ok()) return false;
  std::ofstream file(absl::StrCat(directory, "/", kind, ".svg"));
  file << *svg;
  return static_cast<bool>(file.flush());
}

}  // namespace
}  // namespace stagecoach::schedule

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: draw_pictures DIRECTORY\n";
    return 2;
  }
  for (const char* kind : {"1f1b", "interleaved", "zbv", "dualpipe-v"}) {
    if (!stagecoach::schedule::WritePicture(kind, argv[1])) {
      std::cerr << kind << ": not written\n";
      return 1;
    }
  }
  return 0;
}
