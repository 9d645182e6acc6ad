// Replays a fuzz target's corpus, whose folder is the program's argument: each
// seed, and each seed cut short. A finding ends the process; the last line of
// the output names the seed.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "bazel/fuzzing/fuzz_input.h"
#include "gtest/gtest.h"

namespace {

constexpr size_t kCuts = 16;

std::string folder;

void RunTarget(const std::string& bytes, size_t size) {
  // A buffer of exactly this size, so that AddressSanitizer sees its end.
  const std::vector<uint8_t> input(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

struct Seed {
  std::string name;
  std::string bytes;
};

std::vector<Seed> Seeds() {
  std::vector<Seed> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.push_back({entry.path().filename().string(),
                     std::string(std::istreambuf_iterator<char>(file), {})});
  }
  std::sort(seeds.begin(), seeds.end(),
            [](const Seed& a, const Seed& b) { return a.name < b.name; });
  return seeds;
}

TEST(CorpusTest, EverySeedIsHandled) {
  const std::vector<Seed> seeds = Seeds();
  ASSERT_FALSE(seeds.empty()) << "no seeds in " << folder;
  for (const Seed& seed : seeds) {
    std::cout << seed.name << std::endl;
    RunTarget(seed.bytes, seed.bytes.size());
  }
}

TEST(CorpusTest, EverySeedCutShortIsHandled) {
  for (const Seed& seed : Seeds()) {
    std::cout << seed.name << std::endl;
    for (size_t cut = 0; cut < kCuts; ++cut) {
      RunTarget(seed.bytes, seed.bytes.size() * cut / kCuts);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " CORPUS\n";
    return 2;
  }
  folder = argv[1];
  return RUN_ALL_TESTS();
}
