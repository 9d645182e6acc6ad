// Folders go from transformers to Stagecoach, are trained by real processes,
// and go back: what transformers computes of them must be what the workers
// computed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/process.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSamples = 8;
// Both round in float32, in other orders.
constexpr double kTolerance = 5e-6;

// The workspace, where scripts/python_env.sh leaves a link to the interpreter.
// Data files are links into it.
fs::path Workspace() {
  const fs::path script =
      fs::canonical("tests/transformers/with_transformers.py");
  return script.parent_path().parent_path().parent_path();
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<int> Bytes(const std::string& text) {
  std::vector<int> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

class TransformersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path python = Workspace() / ".deps/transformers/bin/python";
    if (!fs::exists(python)) {
      GTEST_SKIP() << "no transformers here: scripts/python_env.sh "
                      "--transformers makes it";
    }
    python_ = python.string();
  }

  // What the helper prints; null if it fails.
  json Python(const std::string& verb, const std::string& argument) {
    SpawnOptions spawn;
    spawn.program = python_;
    spawn.arguments = {
        fs::absolute("tests/transformers/with_transformers.py").string(), verb,
        argument};
    const char* home = std::getenv("CUDA_HOME");
    const std::string cuda = home == nullptr ? "/usr/local/cuda" : home;
    spawn.environment = {{"LD_LIBRARY_PATH", cuda + "/lib64"},
                         {"HF_HUB_OFFLINE", "1"},
                         {"HF_HOME", folder_.path()}};
    spawn.pipe_stdout = true;
    spawn.die_with_parent = false;
    spawn.stderr_file = folder_.path() + "/python";
    ChildProcess child = ChildProcess::Spawn(spawn).value();
    std::string document;
    for (auto line = child.ReadLine(absl::Minutes(5)); line.ok();
         line = child.ReadLine(absl::Minutes(5))) {
      absl::StrAppend(&document, *line, "\n");
    }
    EXPECT_EQ(child.Wait(absl::Minutes(1)).value_or(-1), 0)
        << ReadAll(spawn.stderr_file);
    return json::parse(document, nullptr, false);
  }

  // Trains, and exports the last checkpoint; returns the job.
  json TrainAndExport(const Cluster& cluster, const std::string& name,
                      const std::string& spec, const std::string& exported) {
    const std::string checkpoints =
        absl::StrCat(folder_.path(), "/checkpoints-", name);
    json job = cluster.RunJob(
        folder_.Write("job.toml", spec),
        {absl::StrCat("checkpoint.directory=\"", checkpoints, "\""),
         "checkpoint.every_steps=1000"});
    EXPECT_EQ(job.value("state", ""), "SUCCEEDED")
        << job.dump(1) << cluster.Logs();
    const CommandResult result =
        RunClient({"checkpoint", "export", checkpoints, exported});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return job;
  }

  TemporaryFolder folder_;
  std::string python_;
};

// Every folder of tests/parity: trained a little, exported, and scored there.
TEST_F(TransformersTest, EveryReferenceModelGoesThereAndBack) {
  constexpr int kSequence = 24;
  std::string tokens;
  std::vector<int> numbers;
  for (int i = 0; i < 1000; ++i) {
    numbers.push_back(i % 37 == 0 ? i % 96 : (numbers.back() * 7 + 3) % 96);
    tokens.push_back(static_cast<char>(numbers.back()));
    tokens.push_back('\0');
  }
  const std::string file = folder_.Write("tokens.bin", tokens);
  const auto cluster = Cluster::Start(2).value();
  json requests = json::array();
  std::vector<std::string> names;
  std::vector<double> losses;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("tests/parity/data")) {
    const std::string name = entry.path().filename().string();
    const std::string exported = absl::StrCat(folder_.path(), "/", name);
    const json job = TrainAndExport(
        *cluster, name,
        absl::StrCat(
            "name = \"", name, "\"\n[model]\ncheckpoint = \"",
            fs::absolute(entry.path()).string(),
            "\"\n[data]\nkind = \"tokens\"\npath = \"", file,
            "\"\nsequence_length = ", kSequence,
            "\n[training]\nsteps = 4\nmicrobatches = 2\nmicrobatch_size = 2\n"
            "learning_rate = 1e-2\nwarmup_steps = 0\n[evaluation]\npath = \"",
            file, "\"\nevery_steps = 4\nmicrobatches = ", kSamples / 2,
            "\n[pipeline]\nworkers = 2\n"),
        exported);
    ASSERT_FALSE(HasFailure()) << name;
    names.push_back(name);
    losses.push_back(job["evaluations"].back()["loss"]);
    EXPECT_LT(losses.back(), job["evaluations"].front()["loss"]) << name;
    requests.push_back({{"folder", exported},
                        {"tokens", numbers},
                        {"sequence", kSequence},
                        {"samples", kSamples},
                        {"prompt", {1, 2, 3}},
                        {"length", 1}});
  }
  ASSERT_GE(names.size(), 10u);
  const json scores =
      Python("score", folder_.Write("requests.json", requests.dump()));
  ASSERT_EQ(scores.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const double theirs = scores[i]["loss"];
    const double difference = std::abs(theirs - losses[i]) / losses[i];
    EXPECT_LE(difference, kTolerance) << names[i];
    std::cout << absl::StreamFormat(
        "%-38s loss after 4 steps %.7f, by transformers %.7f: %.1e apart\n",
        names[i], losses[i], theirs, difference);
  }
}

// A folder that transformers has just made, and English text.
TEST_F(TransformersTest, AFineTuneOnFourWorkers) {
  constexpr int kSequence = 64;
  const std::string model = folder_.path() + "/model";
  Python("make", model);
  const std::string text = ReadAll("docs/cli.md") + ReadAll("docs/job_spec.md");
  const size_t cut = text.size() * 9 / 10;
  const std::string train = folder_.Write("train.txt", text.substr(0, cut));
  const std::string rest = text.substr(cut);
  const std::string validation = folder_.Write("validation.txt", rest);
  const std::string exported = folder_.path() + "/tuned";
  const auto cluster = Cluster::Start(4).value();
  const json job = TrainAndExport(
      *cluster, "tuned",
      absl::StrCat(
          "name = \"fine-tune\"\n[model]\ncheckpoint = \"", model,
          "\"\n[data]\npath = \"", train, "\"\nsequence_length = ", kSequence,
          "\n[training]\nsteps = 300\nmicrobatches = 4\n"
          "microbatch_size = 4\nlearning_rate = 5e-3\n"
          "[evaluation]\npath = \"",
          validation, "\"\nevery_steps = 100\nmicrobatches = ", kSamples / 4,
          "\n[pipeline]\nworkers = 4\n"),
      exported);
  ASSERT_FALSE(HasFailure());
  std::cout << "validation loss:";
  for (const json& evaluation : job["evaluations"]) {
    std::cout << absl::StreamFormat(" step %d %.4f,",
                                    evaluation["step"].get<int>(),
                                    evaluation["loss"].get<double>());
  }
  std::cout << "\n";
  const json& evaluations = job["evaluations"];
  for (size_t i = 1; i < evaluations.size(); ++i) {
    EXPECT_LT(evaluations[i]["loss"], evaluations[i - 1]["loss"]);
  }
  const std::string prompt = "The job is ";
  const CommandResult generated = RunClient(
      {"-o", "json", "generate", folder_.path() + "/checkpoints-tuned",
       "--prompt", prompt, "--tokens", "40", "--temperature", "0"});
  ASSERT_EQ(generated.exit_code, 0) << generated.err;
  const json request = {{"folder", exported},      {"tokens", Bytes(rest)},
                        {"sequence", kSequence},   {"samples", kSamples},
                        {"prompt", Bytes(prompt)}, {"length", 40}};
  const json score =
      Python("score",
             folder_.Write("requests.json", json::array({request}).dump()))[0];
  const double ours = evaluations.back()["loss"];
  const double theirs = score["loss"];
  EXPECT_LE(std::abs(theirs - ours) / ours, kTolerance);
  EXPECT_EQ(score["continuation"], generated.json["tokens"]);
  std::cout << absl::StreamFormat(
      "loss %.7f, by transformers %.7f; 40 tokens equal: \"%s\"\n", ours,
      theirs, generated.json["text"].get<std::string>());
}

}  // namespace
}  // namespace stagecoach::testing
