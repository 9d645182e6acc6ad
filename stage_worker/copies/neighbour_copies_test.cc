#include "stage_worker/copies/neighbour_copies.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"

namespace stagecoach::worker {
namespace {

job::JobSpec Spec() {
  job::JobSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 8;
  spec.model.heads = 1;
  spec.model.vocabulary = 32;
  spec.data.sequence_length = 4;
  spec.model.tie_embeddings = false;
  spec.pipeline.workers = 2;
  return spec;
}

// Two workers of one process; each keeps the other's copies.
class NeighbourCopiesTest : public ::testing::Test {
 protected:
  NeighbourCopiesTest() {
    for (StateVault* vault : {&first_, &second_}) {
      vault->Begin("job-1", Epoch(3), /*keep=*/false);
    }
    carrier_.send = [this](const StateRequest& request, const StageState& state,
                           const std::atomic<bool>& /*cancelled*/) {
      ++sent_;
      if (!failures_.empty()) {
        const absl::Status status = failures_.front();
        failures_.erase(failures_.begin());
        if (!status.ok()) return status;
      }
      const StateLayout layout = LayoutOf(state);
      return VaultOf(request.peer)
          .Receive(request.job_id, request.epoch, request.name, &layout, 0,
                   ReadState(state, 0, layout.bytes()));
    };
    carrier_.fetch =
        [this](const StateRequest& request) -> absl::StatusOr<StageState> {
      ++fetched_;
      const auto state =
          VaultOf(request.peer)
              .Find(request.job_id, request.name.stage, request.name.step);
      if (state == nullptr) return absl::NotFoundError("not kept");
      return *state;
    };
  }
  StateVault& VaultOf(const PeerAddress& peer) {
    return peer.worker == "w0" ? first_ : second_;
  }
  static PeerAddress Peer(const std::string& name) {
    PeerAddress peer;
    peer.worker = name;
    return peer;
  }
  std::shared_ptr<NeighbourCopies> OfFirst() {
    NeighbourCopies::Options options;
    options.job_id = "job-1";
    options.epoch = Epoch(3);
    options.neighbour = Peer("w1");
    options.vault = &first_;
    options.carrier = carrier_;
    options.executor = &executor_;
    return std::make_shared<NeighbourCopies>(options);
  }
  std::unique_ptr<StageEngine> Engine(int32_t stage, int64_t seed = 0) {
    EngineOptions options;
    options.spec = Spec();
    options.spec.seed = seed;
    StageAssignment assignment;
    assignment.stage = StageIndex(stage);
    assignment.layers = {stage, stage + 1};
    assignment.first = stage == 0;
    assignment.last = stage == 1;
    options.stages = {assignment};
    return NewSyntheticEngine(SyntheticOptions(), &allocator_, options).value();
  }
  std::vector<absl::Status> Copy(NeighbourCopies& copies, int64_t step,
                                 StageEngine& engine) {
    std::vector<absl::Status> done;
    copies.Copy(
        step, engine.ExportState().value(),
        [&done](const absl::Status& status) { done.push_back(status); });
    EXPECT_TRUE(done.empty()) << "behind the step";
    executor_.RunAll();
    return done;
  }

  memory::AccountingAllocator allocator_;
  ManualExecutor executor_;
  StateVault first_{&allocator_};
  StateVault second_{&allocator_};
  StateCarrier carrier_;
  int sent_ = 0;
  int fetched_ = 0;
  std::vector<absl::Status> failures_;  // of the next sends
};

TEST_F(NeighbourCopiesTest, TheNeighbourHasTheSameBits) {
  auto engine = Engine(0);
  auto copies = OfFirst();
  const auto done = Copy(*copies, 4, *engine);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok()) << done[0];
  const auto own = first_.Find("job-1", StageIndex(0), 4);
  const auto other = second_.Find("job-1", StageIndex(0), 4);
  ASSERT_NE(own, nullptr);
  ASSERT_NE(other, nullptr);
  const int64_t bytes = LayoutOf(*own).bytes();
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(ReadState(*own, 0, bytes), ReadState(*other, 0, bytes));
}

TEST_F(NeighbourCopiesTest, APeerThatCannotBeReachedIsTriedAgain) {
  auto engine = Engine(0);
  auto copies = OfFirst();
  failures_ = {absl::UnavailableError("gone"),
               absl::FailedPreconditionError("another epoch")};
  const auto done = Copy(*copies, 4, *engine);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok()) << done[0];
  EXPECT_EQ(sent_, 3);
}

TEST_F(NeighbourCopiesTest, WithoutRoomItFails) {
  auto engine = Engine(0);
  auto copies = OfFirst();
  failures_ = {absl::ResourceExhaustedError("no room")};
  const auto done = Copy(*copies, 4, *engine);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(done[0])) << done[0];
}

TEST_F(NeighbourCopiesTest, ACancelledCopyIsNotSent) {
  auto engine = Engine(0);
  auto copies = OfFirst();
  copies->Cancel();
  const auto done = Copy(*copies, 4, *engine);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(done[0]));
  EXPECT_EQ(sent_, 0);
}

TEST_F(NeighbourCopiesTest, AnotherEngineGoesOnWithTheCopy) {
  auto engine = Engine(0);
  const auto digest = engine->DigestParameters().value();
  ASSERT_FALSE(digest.empty());
  auto copies = OfFirst();
  Copy(*copies, 4, *engine);
  first_.DropAll();  // the first worker is lost
  RestoreOptions restore;
  restore.job_id = "job-1";
  restore.epoch = Epoch(4);
  restore.step = 4;
  restore.sources = {{StageIndex(0), Peer("w1")}};
  restore.wanted = {StageIndex(0)};
  restore.vault = &first_;
  restore.carrier = carrier_;
  auto other = Engine(0, /*seed=*/1);
  ASSERT_NE(other->DigestParameters()->front().sha256, digest.front().sha256);
  ASSERT_TRUE(RestoreState(restore, other.get()).ok());
  EXPECT_EQ(fetched_, 1);
  EXPECT_EQ(other->DigestParameters()->front().sha256, digest.front().sha256);
  // What is in the own vault is not fetched.
  restore.vault = &second_;
  ASSERT_TRUE(RestoreState(restore, other.get()).ok());
  EXPECT_EQ(fetched_, 1);
}

TEST_F(NeighbourCopiesTest, AKeeperThatIsGoneIsALostWorker) {
  RestoreOptions restore;
  restore.job_id = "job-1";
  restore.step = 4;
  restore.sources = {{StageIndex(0), Peer("w1")}};
  restore.wanted = {StageIndex(0)};
  restore.vault = &first_;
  restore.carrier = carrier_;
  auto engine = Engine(0);
  EXPECT_TRUE(absl::IsUnavailable(RestoreState(restore, engine.get())));
  restore.sources.clear();
  EXPECT_TRUE(absl::IsUnavailable(RestoreState(restore, engine.get())));
}

}  // namespace
}  // namespace stagecoach::worker
