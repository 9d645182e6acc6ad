#include "job/spec_proto.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "job/keys.h"
#include "job/parse.h"
#include "job/words.h"

namespace stagecoach::job {
namespace {

// A value other than the default, for every key.
JobSpec NothingIsDefault() {
  JobSpec spec;
  for (const Key& key : Keys()) {
    std::visit(
        [&](auto* field) {
          using T = std::remove_pointer_t<decltype(field)>;
          if constexpr (std::is_enum_v<T>) {
            const T first = Words<T>().front().value;
            *field = *field == first ? Words<T>().back().value : first;
          } else if constexpr (std::is_same_v<T, bool>) {
            *field = !*field;
          } else if constexpr (std::is_same_v<T, std::string>) {
            *field = "/some/" + std::string(key.name);
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            *field = {2, 3};
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            *field = {"transformer.h.0.", "a \"b\""};
          } else if constexpr (std::is_arithmetic_v<T>) {
            *field += 3;
          } else {
            *field = {0.25, 0.75};
          }
        },
        key.field(spec));
  }
  return spec;
}

void ExpectSame(const JobSpec& a, const JobSpec& b) {
  for (const Key& key : Keys()) {
    EXPECT_EQ(ValueText(key, a), ValueText(key, b)) << key.name;
  }
}

TEST(SpecProtoTest, CarriesEveryKey) {
  const JobSpec spec = NothingIsDefault();
  for (const Key& key : Keys()) {
    ASSERT_NE(ValueText(key, spec), ValueText(key, JobSpec())) << key.name;
  }
  v1::JobSpec proto;
  ToProto(spec, &proto);
  ExpectSame(*FromProto(proto), spec);
}

TEST(SpecProtoTest, CarriesTheDefaults) {
  v1::JobSpec proto;
  ToProto(NothingIsDefault(), &proto);  // What was there before is gone.
  ToProto(JobSpec(), &proto);
  ExpectSame(*FromProto(proto), JobSpec());
}

TEST(SpecProtoTest, AFileGoesThroughUnchanged) {
  const auto parsed = ParseJobSpec(R"(
name = "round trip"
[model]
layers = 6
hidden = 32
heads = 2
[data]
path = "/text"
[training]
learning_rate = 1.1e-3
betas = [0.8, 0.99]
[pipeline]
split = [2, 1, 2, 1]
release = "never"
)",
                                   "/spec.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  v1::JobSpec proto;
  ToProto(parsed->spec, &proto);
  std::string bytes;
  ASSERT_TRUE(proto.SerializeToString(&bytes));
  v1::JobSpec read;
  ASSERT_TRUE(read.ParseFromString(bytes));
  ExpectSame(*FromProto(read), parsed->spec);
}

TEST(SpecProtoTest, RefusesWordsItDoesNotKnow) {
  v1::JobSpec good;
  ToProto(JobSpec(), &good);
  v1::JobSpec bad = good;
  bad.mutable_pipeline()->set_transport("pigeon");
  EXPECT_EQ(
      FromProto(bad).status(),
      absl::InvalidArgumentError(
          "pipeline.transport: \"pigeon\" is not one of \"auto\", "
          "\"shm\", \"tcp\", \"nccl\", \"ucx\", \"loopback\"; are client and "
          "coordinator of one version?"));
  // An empty message has no words at all.
  EXPECT_EQ(FromProto(v1::JobSpec()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SpecProtoTest, EveryWordFieldIsChecked) {
  v1::JobSpec good;
  ToProto(JobSpec(), &good);
  const auto expect_refused = [&](const char* key, const auto& change) {
    v1::JobSpec bad = good;
    change(&bad);
    const absl::Status status = FromProto(bad).status();
    EXPECT_TRUE(absl::StartsWith(status.message(), key)) << status;
  };
  expect_refused("model.architecture", [](v1::JobSpec* spec) {
    spec->mutable_model()->set_architecture("x");
  });
  expect_refused("data.kind", [](v1::JobSpec* spec) {
    spec->mutable_data()->set_kind("x");
  });
  expect_refused("data.order", [](v1::JobSpec* spec) {
    spec->mutable_data()->set_order("x");
  });
  expect_refused("training.optimizer", [](v1::JobSpec* spec) {
    spec->mutable_training()->set_optimizer("x");
  });
  expect_refused("training.learning_rate_schedule", [](v1::JobSpec* spec) {
    spec->mutable_training()->set_learning_rate_schedule("x");
  });
  expect_refused("training.precision", [](v1::JobSpec* spec) {
    spec->mutable_training()->set_precision("x");
  });
  expect_refused("training.kernels", [](v1::JobSpec* spec) {
    spec->mutable_training()->set_kernels("x");
  });
  expect_refused("pipeline.release", [](v1::JobSpec* spec) {
    spec->mutable_pipeline()->set_release("x");
  });
}

}  // namespace
}  // namespace stagecoach::job
