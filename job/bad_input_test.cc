// Every way in which a spec can be wrong, with the exact message. "DIR" stands
// for the folder of the spec.
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "job/parse.h"

namespace stagecoach::job {
namespace {

constexpr char kGood[] = R"(name = "good"
seed = 7
[model]
layers = 4
hidden = 32
heads = 2
[data]
path = "text.txt"
sequence_length = 16
[training]
steps = 5
microbatches = 4
[pipeline]
workers = 2
)";

struct BadInput {
  const char* title;
  const char* line;  // of kGood
  const char* with;  // what stands there instead
  const char* message;
};

std::string Folder() {
  const std::string folder =
      std::filesystem::path(testing::TempDir() + "/bad_input_test")
          .lexically_normal()
          .string();
  mkdir(folder.c_str(), 0755);
  std::ofstream(folder + "/text.txt") << std::string(1000, 'x');
  std::ofstream(folder + "/empty.txt");
  std::ofstream(folder + "/one.txt") << "x";
  std::ofstream(folder + "/short.txt") << "sixteen bytes...";
  std::ofstream(folder + "/exact.txt") << "seventeen bytes..";
  std::ofstream(folder + "/damaged.json") << "{\"kind\": ";
  for (const char* model : {"gpt2", "llama", "damaged"}) {
    mkdir((folder + "/" + model).c_str(), 0755);
  }
  std::ofstream(folder + "/gpt2/config.json")
      << R"({"model_type": "gpt2", "n_layer": 4, "n_embd": 32, "n_head": 2,
             "vocab_size": 300, "n_positions": 20, "attn_pdrop": 0,
             "embd_pdrop": 0, "resid_pdrop": 0})";
  std::ofstream(folder + "/llama/config.json")
      << R"({"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 32,
             "num_attention_heads": 3, "head_dim": 6, "vocab_size": 300,
             "intermediate_size": 50})";
  std::ofstream(folder + "/damaged/config.json")
      << R"({"model_type": "llama", "hidden_sizes": 32})";
  unlink((folder + "/loop.txt").c_str());
  if (symlink("loop.txt", (folder + "/loop.txt").c_str()) != 0) std::abort();
  unlink((folder + "/pipe.txt").c_str());
  if (mkfifo((folder + "/pipe.txt").c_str(), 0644) != 0) std::abort();
  return folder;
}

// The message of parsing and validating, with "DIR" for the folder.
std::string Check(const std::string& text,
                  const std::vector<std::string>& overrides = {}) {
  static const auto* const folder = new std::string(Folder());
  auto parsed = ParseJobSpec(text, *folder + "/spec.toml", overrides);
  absl::Status status = parsed.status();
  if (status.ok()) status = ResolveModel(&*parsed);
  if (status.ok()) status = Validate(*parsed);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return absl::StrReplaceAll(status.message(), {{*folder, "DIR"}});
}

std::string GoodWith(const std::string& line, const std::string& with) {
  std::string text = kGood;
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), with);
}

std::string TitleOf(const testing::TestParamInfo<BadInput>& input) {
  return input.param.title;
}

class BadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsRefusedWithPlaceAndRemedy) {
  const BadInput& input = GetParam();
  const std::string message = Check(GoodWith(input.line, input.with));
  EXPECT_EQ(message, input.message);
  // With all of them the test's output is a table of what is refused, and how.
  std::cout << "| `" << absl::StrReplaceAll(input.with, {{"\n", "` `"}})
            << "` | " << message << " |" << std::endl;
}

TEST(GoodInputTest, IsAccepted) {
  EXPECT_EQ(Check(kGood), "");
  // One sample is enough.
  EXPECT_EQ(Check(kGood, {"data.path=exact.txt"}), "");
}

TEST(GoodInputTest, FeaturesThatAreSwitchedOffAreAccepted) {
  EXPECT_EQ(
      Check(kGood, {"memory.limit=0", "recovery.neighbour_copy=false",
                    "recovery.max_failures=100", "checkpoint.every_steps=2",
                    "model.checkpoint=\"\"", "checkpoint.directory=\"\""}),
      "");
}

TEST(GoodInputTest, WhatIsBuiltIsAccepted) {
  for (const char* text : {"pipeline.schedule=gpipe",
                           "pipeline.schedule=1f1b",
                           "pipeline.schedule=interleaved",
                           "pipeline.release=sent",
                           "pipeline.release=never",
                           "pipeline.transport=shm",
                           "pipeline.split=[1, 3]",
                           "training.optimizer=sgd",
                           "training.kernels=aten",
                           "training.kernels=onednn",
                           "training.learning_rate_schedule=linear",
                           "training.learning_rate_schedule=constant",
                           "training.warmup_steps=100",
                           "training.gradient_clip=0",
                           "training.learning_rate=0",
                           "data.order=sequential",
                           "data.stride=1",
                           "data.token_type=uint32",
                           "training.last_microbatch_size=1",
                           "training.precision=bfloat16",
                           "training.precision=float16",
                           "training.initial_loss_scale=1",
                           "training.freeze=[\"transformer.wte\"]",
                           "training.freeze=[]",
                           "model.dropout=0.1",
                           "model.tie_embeddings=false"}) {
    EXPECT_EQ(Check(kGood, {text}), "") << text;
  }
  EXPECT_EQ(Check(kGood, {"pipeline.schedule=interleaved",
                          "pipeline.stages_per_worker=2"}),
            "");
  EXPECT_EQ(Check(kGood, {"pipeline.workers=1", "pipeline.transport=loopback"}),
            "");
  EXPECT_EQ(Check(kGood, {"data.documents=isolated", "data.document_end=10"}),
            "");
}

TEST(GoodInputTest, ACheckpointGivesTheSizes) {
  const auto check = [](const std::string& model) {
    return Check(GoodWith("layers = 4\nhidden = 32\nheads = 2", model));
  };
  EXPECT_EQ(check("checkpoint = \"gpt2\""), "");
  EXPECT_EQ(check("checkpoint = \"llama\""), "");
  // Said again, and the same.
  EXPECT_EQ(check("checkpoint = \"llama\"\nlayers = 4\n"
                  "architecture = \"llama\"\ntie_embeddings = false"),
            "");
}

const BadInput kSyntax[] = {
    {"NotToml", "seed = 7", "seed 7",
     "DIR/spec.toml:2:6: Error while parsing key-value pair: expected '=', saw "
     "'7'"},
    {"UnfinishedString", "\"good\"", "\"good",
     "DIR/spec.toml:1:13: Error while parsing string: unescaped control "
     "characters other than TAB (U+0009) are explicitly prohibited"},
    {"KeyTwice", "seed = 7", "seed = 7\nseed = 8",
     "DIR/spec.toml:3:8: Error while parsing key-value pair: cannot redefine "
     "existing integer 'seed'"},
    {"IntegerTooLong", "seed = 7", "seed = 99999999999999999999",
     "DIR/spec.toml:2:28: Error while parsing decimal integer: "
     "'99999999999999999999' is not representable in 64 bits"},
};
INSTANTIATE_TEST_SUITE_P(Syntax, BadInputTest, testing::ValuesIn(kSyntax),
                         TitleOf);

const BadInput kKeys[] = {
    {"MistypedKey", "workers = 2", "worker = 2",
     "DIR/spec.toml:14:1: pipeline.worker: unknown key; did you mean "
     "\"pipeline.workers\"?"},
    {"KeyInTheWrongTable", "steps = 5", "stride = 5",
     "DIR/spec.toml:11:1: training.stride: unknown key; did you mean "
     "\"data.stride\"?"},
    {"KeyOfATableAtTheTop", "seed = 7", "workers = 7",
     "DIR/spec.toml:2:1: workers: unknown key; did you mean "
     "\"pipeline.workers\"?"},
    {"MistypedTable", "[pipeline]", "[pipelin]",
     "DIR/spec.toml:13:2: pipelin: unknown key; did you mean \"pipeline\"?"},
    {"StrangeKey", "workers = 2", "zzzzzz = 2",
     "DIR/spec.toml:14:1: pipeline.zzzzzz: unknown key; [pipeline] has "
     "workers, "
     "stages_per_worker, schedule, split, release, send_budget, transport"},
    {"StrangeKeyAtTheTop", "seed = 7", "zzzzzz = 7",
     "DIR/spec.toml:2:1: zzzzzz: unknown key; see docs/job_spec.md"},
    {"QuotedKeyWithADot", "seed = 7", "\"model.layers\" = 7",
     "DIR/spec.toml:2:1: \"model.layers\": unknown key; did you mean "
     "\"model.layers\"?"},
    {"TableThatIsAValue", "seed = 7", "memory = 7",
     "DIR/spec.toml:2:1: memory: is a table, not an integer; write [memory] "
     "and "
     "its keys below"},
    {"ValueThatIsATable", "steps = 5", "optimizer.kind = \"adamw\"",
     "DIR/spec.toml:11:1: training.optimizer: expected a string, got a table"},
    {"MissingName", "name = \"good\"", "",
     "DIR/spec.toml:1:1: name: is missing; every job needs it (text)"},
    {"MissingSize", "layers = 4", "",
     "DIR/spec.toml:3:2: model.layers: is missing; every job needs it (integer "
     "from 1 to 65536)"},
    {"MissingPath", "path = \"text.txt\"", "",
     "DIR/spec.toml:7:2: data.path: is missing; every job needs it (path)"},
    {"SeveralAtOnce", "seed = 7", "sed = 7\nname2 = 1",
     "DIR/spec.toml:2:1: sed: unknown key; did you mean \"seed\"?\n"
     "DIR/spec.toml:3:1: name2: unknown key; did you mean \"name\"?"},
};
INSTANTIATE_TEST_SUITE_P(Keys, BadInputTest, testing::ValuesIn(kKeys), TitleOf);

const BadInput kTypes[] = {
    {"FractionForInteger", "layers = 4", "layers = 4.5",
     "DIR/spec.toml:4:1: model.layers: expected an integer, got a number with "
     "a fraction"},
    {"WholeFractionForInteger", "layers = 4", "layers = 4.0",
     "DIR/spec.toml:4:1: model.layers: expected an integer, got a number with "
     "a fraction; write 4"},
    {"TextForInteger", "layers = 4", "layers = \"4\"",
     "DIR/spec.toml:4:1: model.layers: expected an integer, got a string; "
     "write "
     "4 without quotes"},
    {"InfiniteForInteger", "layers = 4", "layers = inf",
     "DIR/spec.toml:4:1: model.layers: expected an integer, got a number with "
     "a fraction"},
    {"IntegerForText", "name = \"good\"", "name = 4",
     "DIR/spec.toml:1:1: name: expected a string, got an integer; put it in "
     "quotes"},
    {"TextForBoolean", "layers = 4", "layers = 4\ntie_embeddings = \"true\"",
     "DIR/spec.toml:5:1: model.tie_embeddings: expected true or false, got a "
     "string; write true without quotes"},
    {"IntegerForBoolean", "layers = 4", "layers = 4\ntie_embeddings = 1",
     "DIR/spec.toml:5:1: model.tie_embeddings: expected true or false, got an "
     "integer"},
    {"TextForNumber", "steps = 5", "learning_rate = \"1e-3\"",
     "DIR/spec.toml:11:1: training.learning_rate: expected a number, got a "
     "string; write 1e-3 without quotes"},
    {"DateForNumber", "steps = 5", "learning_rate = 2024-01-01",
     "DIR/spec.toml:11:1: training.learning_rate: expected a number, got a "
     "date or time"},
    {"ThreeBetas", "steps = 5", "betas = [0.9, 0.95, 0.99]",
     "DIR/spec.toml:11:1: training.betas: expected two numbers, got 3; write "
     "for example [0.9, 0.95]"},
    {"OneBeta", "steps = 5", "betas = 0.9",
     "DIR/spec.toml:11:1: training.betas: expected two numbers, got a number "
     "with a fraction; write for example [0.9, 0.95]"},
    {"IntegerForSplit", "workers = 2", "split = 2",
     "DIR/spec.toml:14:1: pipeline.split: expected \"auto\" or a list of "
     "integers, got an integer; write \"auto\" or for example [2, 3, 2, 1]"},
    {"EmptySplit", "workers = 2", "split = []",
     "DIR/spec.toml:14:1: pipeline.split: the list is empty; write \"auto\" or "
     "for example [2, 3, 2, 1]"},
    {"FractionInSplit", "workers = 2", "split = [2, 2.0]",
     "DIR/spec.toml:14:1: pipeline.split: expected integers in the list, got a "
     "number with a fraction; write 2"},
    {"DecimalUnit", "[pipeline]", "[memory]\nlimit = \"8GB\"\n[pipeline]",
     "DIR/spec.toml:14:1: memory.limit: \"8GB\" is not a size in bytes; write "
     "for example \"8GiB\", \"512MiB\" or \"4096\" (units KiB, MiB, GiB, TiB)"},
    {"FractionForSize", "[pipeline]", "[memory]\nlimit = 1.5\n[pipeline]",
     "DIR/spec.toml:14:1: memory.limit: expected a size, got a number with a "
     "fraction; write for example \"8GiB\""},
    {"RecomputeOfNothing", "[pipeline]",
     "[memory]\nrecompute = \"some\"\n[pipeline]",
     "DIR/spec.toml:14:1: memory.recompute: \"some\" is not \"none\", \"full\" "
     "or for example \"every-2\""},
    {"RecomputeOfTooFewStages", "[pipeline]",
     "[memory]\nrecompute = [\"full\", \"none\", \"none\"]\n[pipeline]",
     "DIR/spec.toml:14:1: memory.recompute: is for 3 stages, the job has "
     "2"},
    {"MistypedWord", "steps = 5", "optimizer = \"adam\"",
     "DIR/spec.toml:11:1: training.optimizer: \"adam\" is not one of "
     "\"adamw\", \"sgd\"; did you mean \"adamw\"?"},
    {"StrangeWord", "workers = 2", "release = \"later\"",
     "DIR/spec.toml:14:1: pipeline.release: \"later\" is not one of \"ack\", "
     "\"sent\", \"never\""},
    {"StrangeTokenType", "sequence_length = 16", "token_type = \"uint8\"",
     "DIR/spec.toml:9:1: data.token_type: \"uint8\" is not one of \"uint16\", "
     "\"uint32\"; did you mean \"uint16\"?"},
};
INSTANTIATE_TEST_SUITE_P(Types, BadInputTest, testing::ValuesIn(kTypes),
                         TitleOf);

const BadInput kNumbers[] = {
    {"NoLayers", "layers = 4", "layers = 0",
     "DIR/spec.toml:4:1: model.layers: must be from 1 to 65536, not 0"},
    {"NegativeLayers", "layers = 4", "layers = -4",
     "DIR/spec.toml:4:1: model.layers: must be from 1 to 65536, not -4"},
    {"HugeHidden", "hidden = 32", "hidden = 1099511627776",
     "DIR/spec.toml:5:1: model.hidden: must be from 1 to 1048576, not "
     "1099511627776"},
    {"LargestInteger", "hidden = 32", "hidden = 9223372036854775807",
     "DIR/spec.toml:5:1: model.hidden: must be from 1 to 1048576, not "
     "9223372036854775807"},
    {"NegativeSeed", "seed = 7", "seed = -1",
     "DIR/spec.toml:2:1: seed: must be at least 0, not -1"},
    {"NoMicrobatches", "microbatches = 4", "microbatches = 0",
     "DIR/spec.toml:12:1: training.microbatches: must be from 1 to 65536, not "
     "0"},
    {"NoSteps", "steps = 5", "steps = 0",
     "DIR/spec.toml:11:1: training.steps: must be from 1 to 1000000000, not 0"},
    {"NoSendBudget", "workers = 2", "send_budget = 0",
     "DIR/spec.toml:14:1: pipeline.send_budget: must be from 1 to 1024, not 0"},
    {"NoStride", "sequence_length = 16", "stride = 0",
     "DIR/spec.toml:9:1: data.stride: must be from 1 to 1048576, not 0"},
    {"NegativeRate", "steps = 5", "learning_rate = -0.5",
     "DIR/spec.toml:11:1: training.learning_rate: must be at least 0, not "
     "-0.5"},
    {"LastMicrobatchAboveTheOthers", "steps = 5", "last_microbatch_size = 5",
     "DIR/spec.toml:11:1: training.last_microbatch_size: 5 is above "
     "training.microbatch_size = 4; lower it"},
    {"LastOfOneMicrobatch", "microbatches = 4",
     "microbatches = 1\nlast_microbatch_size = 2",
     "DIR/spec.toml:13:1: training.last_microbatch_size: the only microbatch "
     "of a step has training.microbatch_size rows; leave this out"},
    {"LossScaleThatRounds", "steps = 5", "initial_loss_scale = 1000",
     "DIR/spec.toml:11:1: training.initial_loss_scale: 1000 is no power of 2; "
     "try 65536"},
    {"FreezingWhatIsNotThere", "steps = 5", "freeze = [\"model.layers.0.\"]",
     "DIR/spec.toml:11:1: training.freeze: no parameter's name begins with "
     "\"model.layers.0.\"; they are like \"transformer.wte.weight\""},
    {"FreezingEverything", "steps = 5", "freeze = [\"transformer.\"]",
     "DIR/spec.toml:11:1: training.freeze: leaves nothing to train; freeze "
     "less"},
    {"FreezeThatIsNoList", "steps = 5", "freeze = \"transformer.\"",
     "DIR/spec.toml:11:1: training.freeze: expected a list of texts, got a "
     "string; write for example [\"transformer.wte\"]"},
    {"FreezeOfNumbers", "steps = 5", "freeze = [0]",
     "DIR/spec.toml:11:1: training.freeze: expected texts in the list, got an "
     "integer; write for example [\"transformer.wte\"]"},
    {"Dropout", "layers = 4", "layers = 4\ndropout = 1",
     "DIR/spec.toml:5:1: model.dropout: must be from 0 to below 1, not 1"},
    {"IsolatedWithoutAnEnd", "sequence_length = 16", "documents = \"isolated\"",
     "DIR/spec.toml:9:1: data.documents: \"isolated\" needs "
     "data.document_end, the token that ends a document"},
    {"EndOutsideTheVocabulary", "sequence_length = 16",
     "document_end = 256\ndocuments = \"isolated\"",
     "DIR/spec.toml:9:1: data.document_end: 256 is outside model.vocabulary = "
     "256"},
    {"NegativeEnd", "sequence_length = 16", "document_end = -2",
     "DIR/spec.toml:9:1: data.document_end: must be from 0 to 16777216, not "
     "-2"},
    {"NotANumber", "steps = 5", "learning_rate = nan",
     "DIR/spec.toml:11:1: training.learning_rate: must be at least 0, not nan"},
    {"InfiniteClip", "steps = 5", "gradient_clip = inf",
     "DIR/spec.toml:11:1: training.gradient_clip: must be at least 0, not inf"},
    {"BetaOfOne", "steps = 5", "betas = [0.9, 1]",
     "DIR/spec.toml:11:1: training.betas: must be from 0 to below 1, not 1"},
    {"NoEpsilon", "steps = 5", "epsilon = 0",
     "DIR/spec.toml:11:1: training.epsilon: must be more than 0, not 0"},
    {"MinimumAboveRate", "steps = 5",
     "learning_rate = 1e-3\nminimum_learning_rate = 1e-2",
     "DIR/spec.toml:12:1: training.minimum_learning_rate: 0.01 is above "
     "training.learning_rate = 0.001; lower it"},
    {"HeadsDoNotDivide", "heads = 2", "heads = 5",
     "DIR/spec.toml:6:1: model.heads: 5 does not divide model.hidden = 32; try "
     "4 or 8"},
    {"MoreHeadsThanHidden", "heads = 2", "heads = 64",
     "DIR/spec.toml:6:1: model.heads: 64 does not divide model.hidden = 32; "
     "try 32"},
    {"VocabularyBelowBytes", "heads = 2", "heads = 2\nvocabulary = 255",
     "DIR/spec.toml:7:1: model.vocabulary: must be at least 256 for data.kind "
     "= \"text\", whose tokens are bytes, not 255"},
    {"MoreStagesThanLayers", "workers = 2", "workers = 5",
     "DIR/spec.toml:14:1: pipeline.workers: 5 stages need at least 5 layers, "
     "the model has 4; lower pipeline.workers or pipeline.stages_per_worker, "
     "or raise model.layers"},
    {"SplitLosesALayer", "workers = 2", "workers = 2\nsplit = [2, 1]",
     "DIR/spec.toml:15:1: pipeline.split: [2, 1] covers 3 of 4 layers and "
     "loses layer 3; try \"auto\" or [2, 2]"},
    {"SplitHasALayerTooMany", "workers = 2", "workers = 2\nsplit = [2, 3]",
     "DIR/spec.toml:15:1: pipeline.split: [2, 3] gives stage 1 layer 4, but "
     "the model has only layers 0 to 3; try \"auto\" or [2, 2]"},
    {"SplitOfAnotherLength", "workers = 2", "workers = 2\nsplit = [1, 1, 2]",
     "DIR/spec.toml:15:1: pipeline.split: lists 3 stages, but workers x "
     "stages_per_worker = 2; try \"auto\" or [2, 2]"},
    {"EmptyStage", "workers = 2", "workers = 2\nsplit = [4, 0]",
     "DIR/spec.toml:15:1: pipeline.split: must be from 1 to 65536, not 0"},
    {"TooManyParameters", "hidden = 32\nheads = 2",
     "hidden = 1048576\nheads = 2",
     "DIR/spec.toml:5:1: model.hidden: these sizes make a model of "
     "52776899969024 parameters; the most is 1099511627776; lower "
     "model.hidden or model.layers"},
    {"HugeMicrobatch", "sequence_length = 16\n[training]\nsteps = 5",
     "sequence_length = 1048576\n[training]\nmicrobatch_size = 65536",
     "DIR/spec.toml:8:1: data.path: \"DIR/text.txt\" has 1000 bytes; one "
     "sample "
     "is data.sequence_length + 1 = 1048577; give a longer text or set "
     "data.sequence_length to at most 999\n"
     "DIR/spec.toml:11:1: training.microbatch_size: one microbatch's "
     "activation "
     "float32[65536, 1048576, 32] is larger than 16.00 GiB; lower it, "
     "data.sequence_length or model.hidden\n"
     "DIR/spec.toml:11:1: training.microbatch_size: one microbatch's logits "
     "float32[65536, 1048576, 256] is larger than 1.00 TiB; lower it, "
     "data.sequence_length or model.vocabulary"},
    {"EmptyName", "name = \"good\"", "name = \"\"",
     "DIR/spec.toml:1:1: name: must not be empty"},
    {"NameWithALineBreak", "name = \"good\"", "name = \"a\\nb\"",
     "DIR/spec.toml:1:1: name: has a line break or another control character; "
     "leave it out"},
    {"SeveralNumbersAtOnce", "hidden = 32\nheads = 2", "hidden = -1\nheads = 0",
     "DIR/spec.toml:5:1: model.hidden: must be from 1 to 1048576, not -1\n"
     "DIR/spec.toml:6:1: model.heads: must be from 1 to 1048576, not 0"},
};
INSTANTIATE_TEST_SUITE_P(Numbers, BadInputTest, testing::ValuesIn(kNumbers),
                         TitleOf);

const BadInput kNotBuilt[] = {
    {"Data", "path = \"text.txt\"", "path = \"text.txt\"\nkind = \"jsonl\"",
     "DIR/spec.toml:9:1: data.kind: \"jsonl\" is not supported yet; supported "
     "now: \"text\", \"tokens\", \"megatron\""},
    {"NeighbourCopy", "workers = 2",
     "workers = 1\n[recovery]\nneighbour_copy = true",
     "DIR/spec.toml:16:1: recovery.neighbour_copy: a job of one worker has no "
     "neighbour; set pipeline.workers = 2 or more, or leave it out"},
};
INSTANTIATE_TEST_SUITE_P(NotBuilt, BadInputTest, testing::ValuesIn(kNotBuilt),
                         TitleOf);

const BadInput kCheckpoint[] = {
    {"FileForFolder", "[pipeline]",
     "[checkpoint]\ndirectory = \"text.txt\"\n[pipeline]",
     "DIR/spec.toml:14:1: checkpoint.directory: \"DIR/text.txt\" is not a "
     "folder"},
};
INSTANTIATE_TEST_SUITE_P(Checkpoint, BadInputTest,
                         testing::ValuesIn(kCheckpoint), TitleOf);

TEST(GoodInputTest, KindsOfData) {
  // 16 bytes and sequences of 7: one sample of uint16.
  const std::vector<std::string> one = {
      "data.kind=tokens", "data.path=short.txt", "data.sequence_length=7"};
  EXPECT_EQ(Check(kGood, one), "");
  std::vector<std::string> few_tokens = one;
  few_tokens.push_back("model.vocabulary=100");
  EXPECT_EQ(Check(kGood, few_tokens), "");
  std::vector<std::string> wide = one;
  wide.push_back("data.token_type=uint32");
  EXPECT_EQ(Check(kGood, wide),
            "--set data.path: \"DIR/short.txt\" has 4 tokens; one sample is "
            "data.sequence_length + 1 = 8; give a longer file or set "
            "data.sequence_length to at most 3");
  EXPECT_EQ(Check(kGood, {"data.kind=megatron", "data.path=one.txt"}), "");
}

const BadInput kModels[] = {
    {"OddLlama", "heads = 2", "heads = 32\narchitecture = \"llama\"",
     "DIR/spec.toml:6:1: model.heads: heads of 1 numbers each are odd; rotary "
     "positions of a llama need pairs"},
    {"NoFolder", "layers = 4\nhidden = 32\nheads = 2",
     "checkpoint = \"nothing\"",
     "DIR/spec.toml:4:1: model.checkpoint: cannot read "
     "\"DIR/nothing/config.json\": No such file or directory"},
    {"DamagedConfig", "layers = 4\nhidden = 32\nheads = 2",
     "checkpoint = \"damaged\"",
     "DIR/spec.toml:4:1: model.checkpoint: DIR/damaged/config.json: "
     "vocab_size: is missing\n"
     "DIR/spec.toml:4:1: model.checkpoint: DIR/damaged/config.json: "
     "num_hidden_layers: is missing\n"
     "DIR/spec.toml:4:1: model.checkpoint: DIR/damaged/config.json: "
     "hidden_size: is missing\n"
     "DIR/spec.toml:4:1: model.checkpoint: DIR/damaged/config.json: "
     "num_attention_heads: is missing\n"
     "DIR/spec.toml:4:1: model.checkpoint: DIR/damaged/config.json: "
     "intermediate_size: is missing\n"
     "DIR/spec.toml:4:1: model.checkpoint: DIR/damaged/config.json: "
     "hidden_sizes: is not known here and may change the model's numbers; did "
     "you mean \"hidden_size\"?"},
    {"Contradiction", "layers = 4\nhidden = 32\nheads = 2",
     "checkpoint = \"llama\"\nlayers = 5\narchitecture = \"gpt2\"",
     "DIR/spec.toml:5:1: model.layers: is 5, but DIR/llama/config.json says 4; "
     "leave it out\n"
     "DIR/spec.toml:6:1: model.architecture: is \"gpt2\", but "
     "DIR/llama/config.json says \"llama\"; leave it out"},
    {"MoreTokensThanPositions",
     "layers = 4\nhidden = 32\nheads = 2\n[data]\npath = \"text.txt\"\n"
     "sequence_length = 16",
     "checkpoint = \"gpt2\"\n[data]\npath = \"text.txt\"\n"
     "sequence_length = 21",
     "DIR/spec.toml:7:1: data.sequence_length: 21 is longer than the 20 "
     "positions of DIR/gpt2; lower it"},
};
INSTANTIATE_TEST_SUITE_P(Models, BadInputTest, testing::ValuesIn(kModels),
                         TitleOf);

#define TRAINING_KINDS                                                     \
  "\"gpipe\", \"1f1b\", \"eager-1f1b\", \"interleaved\", \"looped-bfs\", " \
  "\"zb-h1\", \"zb-h2\", \"zbv\", \"v-half\", \"v-min\", \"dualpipe-v\""

const BadInput kPlugins[] = {
    {"NoLibrary", "heads = 2",
     "heads = 2\narchitecture = \"plugin\"\ntie_embeddings = false",
     "DIR/spec.toml:3:2: model.path: is missing; architecture \"plugin\" needs "
     "the path of its library"},
    {"NoBoundary", "hidden = 32",
     "architecture = \"plugin\"\ntie_embeddings = false\npath = \"x.so\"",
     "DIR/spec.toml:3:2: model.boundary: is missing; give the sizes of one row "
     "of what crosses stages, or model.hidden for [data.sequence_length, "
     "model.hidden]"},
    {"TiedPlugin", "heads = 2",
     "heads = 2\narchitecture = \"plugin\"\npath = \"x.so\"",
     "DIR/spec.toml:3:2: model.tie_embeddings: must be false with "
     "model.architecture = \"plugin\""},
    {"LayersOfAPluginRunAgain", "heads = 2",
     "heads = 2\narchitecture = \"plugin\"\ntie_embeddings = false\n"
     "path = \"x.so\"\n[memory]\nrecompute = \"every-2\"",
     "DIR/spec.toml:11:1: memory.recompute: must be \"none\" or \"full\" with "
     "model.architecture = \"plugin\""},
    {"PathWithoutPlugin", "heads = 2", "heads = 2\npath = \"x.so\"",
     "DIR/spec.toml:7:1: model.path: is for model.architecture = \"plugin\" or "
     "\"torchscript\" alone; leave it out"},
    {"LastTargetWithoutPlugin", "sequence_length = 16", "targets = \"last\"",
     "DIR/spec.toml:9:1: data.targets: is for model.architecture = \"plugin\" "
     "or \"torchscript\" alone; leave it out"},
    {"NoScript", "heads = 2",
     "heads = 2\narchitecture = \"torchscript\"\ntie_embeddings = false",
     "DIR/spec.toml:3:2: model.path: is missing; architecture \"torchscript\" "
     "needs the path of its file"},
    {"BoundariesThatAreNone", "heads = 2",
     "heads = 2\narchitecture = \"torchscript\"\ntie_embeddings = false\n"
     "path = \"x.pt\"\nboundaries = [\"float32[8]\", \"int65[8]\"]",
     "DIR/spec.toml:10:1: model.boundaries: \"int65[8]\" begins with no type; "
     "write a tensor as \"float32[128, 256]\", without its rows"},
    {"BoundaryTwice", "heads = 2",
     "heads = 2\narchitecture = \"torchscript\"\ntie_embeddings = false\n"
     "path = \"x.pt\"\nboundary = [8]\nboundaries = [\"float32[8]\"]",
     "DIR/spec.toml:11:1: model.boundaries: says what model.boundary says; "
     "give "
     "one of both"},
    {"OptionsWithoutPlugin", "heads = 2",
     "heads = 2\narchitecture = \"torchscript\"\ntie_embeddings = false\n"
     "path = \"x.pt\"\noptions = \"8\"",
     "DIR/spec.toml:10:1: model.options: is for model.architecture = "
     "\"plugin\" alone; leave it out"},
};
INSTANTIATE_TEST_SUITE_P(Plugins, BadInputTest, testing::ValuesIn(kPlugins),
                         TitleOf);

const BadInput kSchedules[] = {
    {"Mistyped", "workers = 2", "workers = 2\nschedule = \"1f1\"",
     "DIR/spec.toml:15:1: pipeline.schedule: \"1f1\" is not one "
     "of " TRAINING_KINDS
     ", \"auto\", nor a path (which has a \"/\" or \".\"); did you mean "
     "\"1f1b\"?"},
    {"OnlyForward", "workers = 2", "workers = 2\nschedule = \"forward-only\"",
     "DIR/spec.toml:15:1: pipeline.schedule: \"forward-only\" has no backward "
     "and trains nothing (it is for evaluation); take one of " TRAINING_KINDS},
    {"StagesPerWorker", "workers = 2", "workers = 2\nstages_per_worker = 2",
     "DIR/spec.toml:15:1: pipeline.stages_per_worker: schedule \"1f1b\" has 1 "
     "stage per worker, not 2; set it to 1, or take pipeline.schedule = "
     "interleaved or looped-bfs"},
    {"MissingFile", "workers = 2", "workers = 2\nschedule = \"no.json\"",
     "DIR/spec.toml:15:1: pipeline.schedule: cannot read \"DIR/no.json\": No "
     "such file or directory"},
    {"LoopbackBetweenWorkers", "workers = 2",
     "workers = 2\ntransport = \"loopback\"",
     "DIR/spec.toml:15:1: pipeline.transport: \"loopback\" works only within "
     "one worker, not between 2; try \"auto\", or pipeline.workers = 1"},
};
INSTANTIATE_TEST_SUITE_P(Schedules, BadInputTest, testing::ValuesIn(kSchedules),
                         TitleOf);

const BadInput kDataFiles[] = {
    {"Missing", "text.txt", "no.txt",
     "DIR/spec.toml:8:1: data.path: there is no file \"DIR/no.txt\"; a "
     "relative "
     "path starts at the spec's folder"},
    {"Folder", "text.txt", ".",
     "DIR/spec.toml:8:1: data.path: \"DIR/\" is a folder; give the path of a "
     "data file"},
    {"Empty", "text.txt", "empty.txt",
     "DIR/spec.toml:8:1: data.path: \"DIR/empty.txt\" is empty"},
    {"Unreadable", "text.txt", "loop.txt",
     "DIR/spec.toml:8:1: data.path: cannot read \"DIR/loop.txt\": Too many "
     "levels of symbolic links"},
    {"Pipe", "text.txt", "pipe.txt",
     "DIR/spec.toml:8:1: data.path: \"DIR/pipe.txt\" is not a plain file; give "
     "the path of a data file"},
    {"OneByteTooShort", "text.txt", "short.txt",
     "DIR/spec.toml:8:1: data.path: \"DIR/short.txt\" has 16 bytes; one sample "
     "is data.sequence_length + 1 = 17; give a longer text or set "
     "data.sequence_length to at most 15"},
    {"OneByte", "text.txt", "one.txt",
     "DIR/spec.toml:8:1: data.path: \"DIR/one.txt\" has 1 byte; one sample is "
     "data.sequence_length + 1 = 17; give a longer text"},
    {"EmptyPath", "text.txt", "",
     "DIR/spec.toml:8:1: data.path: must not be empty"},
};
INSTANTIATE_TEST_SUITE_P(DataFiles, BadInputTest, testing::ValuesIn(kDataFiles),
                         TitleOf);

TEST(BadOverrideTest, IsRefusedByName) {
  EXPECT_EQ(Check(kGood, {"pipeline.workers"}),
            "--set pipeline.workers: has no value; write for example "
            "pipeline.send_budget=1");
  EXPECT_EQ(Check(kGood, {"pipeline.worker=1"}),
            "--set pipeline.worker: unknown key; did you mean "
            "\"pipeline.workers\"?");
  EXPECT_EQ(Check(kGood, {"pipeline.workers=two"}),
            "--set pipeline.workers: expected an integer, got a string");
  EXPECT_EQ(Check(kGood, {"pipeline.send_budget=0"}),
            "--set pipeline.send_budget: must be from 1 to 1024, not 0");
  EXPECT_EQ(Check(kGood, {"pipeline.transport=shmem"}),
            "--set pipeline.transport: \"shmem\" is not one of \"auto\", "
            "\"shm\", \"tcp\", \"nccl\", \"ucx\", \"loopback\"; did you mean "
            "\"shm\"?");
}

TEST(BadOverrideTest, ComesAfterTheFilesFindings) {
  EXPECT_EQ(Check(GoodWith("seed = 7", "sed = 7"), {"zzzzzz=1"}),
            "DIR/spec.toml:2:1: sed: unknown key; did you mean \"seed\"?\n"
            "--set zzzzzz: unknown key; see docs/job_spec.md");
}

TEST(ValidateTest, AStepThatIsTooLongToPlanIsRefused) {
  EXPECT_EQ(Check(kGood, {"model.layers=128", "pipeline.workers=128",
                          "training.microbatches=65536"}),
            "--set training.microbatches: 65536 x 128 stages are more than "
            "4194304 actions of one kind in a step; lower it");
}

// A spec that a client of another version let through. The data is elsewhere.
TEST(ValidateTest, ASpecFromTheWireIsCheckedToo) {
  JobSpec spec;
  spec.name = "wire";
  spec.model.hidden = 32;
  spec.model.heads = 2;
  spec.data.path = "/nowhere/text";
  spec.data.token_type = "uint8";
  spec.pipeline.send_budget = -1;
  EXPECT_EQ(Validate(spec),
            absl::InvalidArgumentError(
                "model.layers: is missing; every job needs it (integer from 1 "
                "to 65536)\n"
                "data.token_type: \"uint8\" is not one of \"uint16\", "
                "\"uint32\"\n"
                "pipeline.send_budget: must be from 1 to 1024, not -1"));
}

TEST(ValidateTest, PointsIntoADamagedScheduleFile) {
  const std::string message =
      Check(GoodWith("workers = 2", "schedule = \"damaged.json\""));
  EXPECT_TRUE(absl::StartsWith(
      message, "DIR/spec.toml:14:1: pipeline.schedule: DIR/damaged.json:1:"))
      << message;
}

// Takes root's right to read everything from this thread while it lives.
class WithoutReadPrivilege {
 public:
  WithoutReadPrivilege() {
    header_.version = _LINUX_CAPABILITY_VERSION_3;
    EXPECT_EQ(syscall(SYS_capget, &header_, saved_), 0);
    __user_cap_data_struct fewer[2] = {saved_[0], saved_[1]};
    fewer[0].effective &=
        ~((1u << CAP_DAC_OVERRIDE) | (1u << CAP_DAC_READ_SEARCH));
    EXPECT_EQ(syscall(SYS_capset, &header_, fewer), 0);
  }
  ~WithoutReadPrivilege() {
    EXPECT_EQ(syscall(SYS_capset, &header_, saved_), 0);
  }
  WithoutReadPrivilege(const WithoutReadPrivilege&) = delete;
  WithoutReadPrivilege& operator=(const WithoutReadPrivilege&) = delete;

 private:
  __user_cap_header_struct header_ = {};
  __user_cap_data_struct saved_[2] = {};
};

TEST(ValidateTest, AFileWithoutPermissionIsRefused) {
  const std::string path =
      std::filesystem::path(testing::TempDir() + "/secret.txt")
          .lexically_normal()
          .string();
  std::ofstream(path) << std::string(1000, 'x');
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const WithoutReadPrivilege no_privilege;
  EXPECT_EQ(Check(GoodWith("\"text.txt\"", "\"" + path + "\"")),
            "DIR/spec.toml:8:1: data.path: cannot read \"" + path +
                "\": Permission denied");
}

}  // namespace
}  // namespace stagecoach::job
