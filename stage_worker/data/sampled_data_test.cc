#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "stage_worker/data/data_source.h"

namespace stagecoach::worker {
namespace {

using Tokens = std::vector<int64_t>;

// A file whose byte at offset i is i, so that a token tells its position.
std::string WriteBytes(const std::string& name, int count) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < count; ++i) file.put(static_cast<char>(i));
  return path;
}

job::JobSpec Spec(const std::string& path) {
  job::JobSpec spec;
  spec.seed = 7;
  spec.data.path = path;
  spec.data.sequence_length = 3;
  spec.data.order = job::SampleOrder::kSequential;
  spec.training.microbatches = 2;
  spec.training.microbatch_size = 2;
  return spec;
}

Tokens Inputs(DataSource& data, int64_t step, int microbatch) {
  auto batch = data.Read(StepIndex(step), MicrobatchIndex(microbatch));
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? batch->inputs : Tokens();
}

std::unique_ptr<DataSource> Open(const job::JobSpec& spec) {
  auto data = OpenData(spec);
  EXPECT_TRUE(data.ok()) << data.status();
  return std::move(data).value();
}

TEST(SampledDataTest, CountsSamplesWithTheirTarget) {
  // Starts at 0, 3, ..., 27; the last sample is bytes 27 to 30.
  EXPECT_EQ(Open(Spec(WriteBytes("31", 31)))->samples(), 10);
  EXPECT_EQ(Open(Spec(WriteBytes("30", 30)))->samples(), 9);
  EXPECT_EQ(Open(Spec(WriteBytes("4", 4)))->samples(), 1);
  job::JobSpec overlapping = Spec(WriteBytes("31", 31));
  overlapping.data.stride = 1;
  EXPECT_EQ(Open(overlapping)->samples(), 28);
}

TEST(SampledDataTest, ReadsStepMicrobatchAndRowInFileOrder) {
  auto data = Open(Spec(WriteBytes("31", 31)));
  EXPECT_EQ(Inputs(*data, 0, 0), (Tokens{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Inputs(*data, 0, 1), (Tokens{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(Inputs(*data, 1, 0), (Tokens{12, 13, 14, 15, 16, 17}));
}

TEST(SampledDataTest, TheLastMicrobatchOfAStepMayBeSmaller) {
  job::JobSpec spec = Spec(WriteBytes("40", 40));
  spec.training.last_microbatch_size = 1;
  auto data = Open(spec);
  EXPECT_EQ(Inputs(*data, 0, 0), (Tokens{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Inputs(*data, 0, 1), (Tokens{6, 7, 8}));
  EXPECT_EQ(Inputs(*data, 1, 0), (Tokens{9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(Inputs(*data, 1, 1), (Tokens{15, 16, 17}));
  EXPECT_EQ(data->Read(StepIndex(0), MicrobatchIndex(1))->rows, 1);
}

TEST(SampledDataTest, DocumentsEndWithTheirToken) {
  job::JobSpec spec = Spec(WriteBytes("40", 40));
  spec.data.sequence_length = 5;
  auto packed = Open(spec)->Read(StepIndex(0), MicrobatchIndex(0));
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->documents, Tokens{});
  spec.data.documents = "isolated";
  spec.data.document_end = 6;
  auto batch = Open(spec)->Read(StepIndex(0), MicrobatchIndex(0));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->inputs, (Tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(batch->documents, (Tokens{0, 0, 0, 0, 0, 0, 0, 1, 1, 1}));
  spec.data.document_end = 4;  // the last of a row
  batch = Open(spec)->Read(StepIndex(0), MicrobatchIndex(0));
  EXPECT_EQ(batch->documents, Tokens(10, 0));
}

TEST(SampledDataTest, TargetsAreTheInputsOneLater) {
  job::JobSpec spec = Spec(WriteBytes("31", 31));
  spec.data.stride = 5;
  auto batch = Open(spec)->Read(StepIndex(0), MicrobatchIndex(1));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->rows, 2);
  EXPECT_EQ(batch->sequence_length, 3);
  EXPECT_EQ(batch->inputs, (Tokens{10, 11, 12, 15, 16, 17}));
  EXPECT_EQ(batch->targets, (Tokens{11, 12, 13, 16, 17, 18}));
}

// Ten samples, four a step: step 2 has samples 8, 9 and then 0, 1 again.
TEST(SampledDataTest, StartsANewPassAfterTheLastSample) {
  auto data = Open(Spec(WriteBytes("31", 31)));
  EXPECT_EQ(Inputs(*data, 2, 0), (Tokens{24, 25, 26, 27, 28, 29}));
  EXPECT_EQ(Inputs(*data, 2, 1), (Tokens{0, 1, 2, 3, 4, 5}));
}

// Pass 0 of seed 7 visits 2, 0, 5, 7, 3, 9, 8, 1, 4, 6; pass 1 begins 4, 7.
TEST(SampledDataTest, ShufflesBySeedAndPass) {
  job::JobSpec spec = Spec(WriteBytes("31", 31));
  spec.data.order = job::SampleOrder::kShuffled;
  auto data = Open(spec);
  EXPECT_EQ(Inputs(*data, 0, 0), (Tokens{6, 7, 8, 0, 1, 2}));
  EXPECT_EQ(Inputs(*data, 0, 1), (Tokens{15, 16, 17, 21, 22, 23}));
  EXPECT_EQ(Inputs(*data, 2, 1), (Tokens{12, 13, 14, 21, 22, 23}));
}

// Rows 3: microbatch 3 of step 0 has samples 9 of pass 0 and 0, 1 of pass 1.
TEST(SampledDataTest, AMicrobatchMayEndInTheNextPass) {
  job::JobSpec spec = Spec(WriteBytes("31", 31));
  spec.data.order = job::SampleOrder::kShuffled;
  spec.training.microbatches = 4;
  spec.training.microbatch_size = 3;
  auto data = Open(spec);
  const Tokens across = {18, 19, 20, 12, 13, 14, 21, 22, 23};
  EXPECT_EQ(Inputs(*data, 0, 3), across);
  EXPECT_EQ(Inputs(*data, 5, 0).size(), 9u);
  EXPECT_EQ(Inputs(*data, 0, 3), across) << "an earlier position again";
}

TEST(SampledDataTest, TokensAreUnsignedBytes) {
  auto data = Open(Spec(WriteBytes("256", 256)));
  auto batch = data->Read(StepIndex(21), MicrobatchIndex(0));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->inputs, (Tokens{252, 253, 254, 0, 1, 2}));
  EXPECT_EQ(batch->targets, (Tokens{253, 254, 255, 1, 2, 3}));
}

// Tokens are counted, not bytes.
TEST(SampledDataTest, SamplesOfATokenFile) {
  job::JobSpec spec = Spec(WriteBytes("62", 62));
  spec.data.kind = job::DataKind::kTokens;
  spec.model.vocabulary = 65536;
  auto data = Open(spec);
  EXPECT_EQ(data->samples(), 10);
  const auto token = [](int i) { return (2 * i + 1) * 256 + 2 * i; };
  EXPECT_EQ(Inputs(*data, 0, 1), (Tokens{token(6), token(7), token(8), token(9),
                                         token(10), token(11)}));
}

TEST(SampledDataTest, RefusesATooShortFile) {
  const auto data = OpenData(Spec(WriteBytes("3", 3)));
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(data.status().message().find("3 tokens"), std::string::npos)
      << data.status();
}

TEST(SampledDataTest, RefusesWhatIsNoReadableFile) {
  const std::string folder = ::testing::TempDir();
  EXPECT_EQ(OpenData(Spec(folder + "/nothing here")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenData(Spec(folder)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenData(Spec(WriteBytes("0", 0))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SampledDataTest, RefusesAFileItMayNotRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = WriteBytes("secret", 31);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  EXPECT_EQ(OpenData(Spec(path)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SampledDataTest, RefusesBytesOutsideTheVocabulary) {
  job::JobSpec spec = Spec(WriteBytes("31", 31));
  spec.model.vocabulary = 8;
  auto data = Open(spec);
  EXPECT_TRUE(data->Read(StepIndex(0), MicrobatchIndex(0)).ok());
  const absl::Status refused =
      data->Read(StepIndex(0), MicrobatchIndex(1)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("token 8 at position 8"), std::string::npos)
      << refused;
}

TEST(SampledDataTest, RefusesPositionsOutsideTheStep) {
  auto data = Open(Spec(WriteBytes("31", 31)));
  EXPECT_FALSE(data->Read(StepIndex(0), MicrobatchIndex(2)).ok());
  EXPECT_FALSE(data->Read(StepIndex(0), MicrobatchIndex(-1)).ok());
  EXPECT_FALSE(data->Read(StepIndex(-1), MicrobatchIndex(0)).ok());
}

}  // namespace
}  // namespace stagecoach::worker
