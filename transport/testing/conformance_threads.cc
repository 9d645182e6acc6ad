#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

using testing::EdgeNamed;
using testing::HeaderOf;
using testing::kTestDeadline;
using testing::PoolNamed;
using testing::ProgressThread;
using testing::TensorOver;
using testing::ValuesOf;

// Counts down to a waiter on another thread.
class Countdown {
 public:
  explicit Countdown(int count) : count_(count) {}
  void Hit() {
    MutexLock lock(&mu_);
    --count_;
    changed_.NotifyAll();
  }
  // False after kTestDeadline.
  bool Wait() {
    MutexLock lock(&mu_);
    while (count_ > 0) {
      if (!changed_.WaitFor(&mu_, absl::ToChronoSeconds(kTestDeadline))) {
        return count_ <= 0;
      }
    }
    return true;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ SC_GUARDED_BY(mu_);
};

struct Edge {
  std::unique_ptr<ReceiveEdge> receive;
  std::unique_ptr<SendEdge> send;
};

Edge OpenEdge(Endpoint* from, Endpoint* to, const EdgeOptions& pool,
              Endpoint::AckHandler on_acknowledged = nullptr) {
  Edge edge;
  edge.receive = to->OpenReceive(pool).value();
  edge.send = from->OpenSend(EdgeNamed(pool.name), to->Describe(),
                             std::move(on_acknowledged), kTestDeadline)
                  .value();
  return edge;
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportThreads);

TransportThreads::TransportThreads()
    : bell_a_(Doorbell::Create().value()), bell_b_(Doorbell::Create().value()) {
  const EndpointFactory factory = GetParam().make();
  a_ = factory(testing::OptionsFor(bell_a_.get(), &lost_a_)).value();
  b_ = factory(testing::OptionsFor(bell_b_.get(), &lost_b_)).value();
}

TEST_P(TransportThreads, AbortWakesAWaiterOnTheDoorbell) {
  const uint32_t seen = bell_a_->Count();
  std::thread waiter([&] { bell_a_->Wait(seen, absl::InfiniteDuration()); });
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  waiter.join();
  EXPECT_NE(bell_a_->Count(), seen);
}

// Two threads a side, transfers both ways, everything once and in order.
TEST_P(TransportThreads, TwoThreadsMayMakeProgressAtOnce) {
  constexpr int kTransfers = 1000;
  constexpr int kSlots = 3;
  Countdown pending(2 * 3 * kTransfers);
  std::vector<int64_t> orders[2];
  std::vector<std::vector<int64_t>> values;
  for (int i = 0; i < kTransfers; ++i) values.push_back({i});

  Edge edges[2];
  ReceiveEdge::Completion on_receive[2];
  const auto on_acknowledged = [&](const TransferHeader&) { pending.Hit(); };
  edges[0] = OpenEdge(a_.get(), b_.get(), PoolNamed("there", kSlots, 64),
                      on_acknowledged);
  edges[1] = OpenEdge(b_.get(), a_.get(), PoolNamed("back", kSlots, 64),
                      on_acknowledged);
  for (int e = 0; e < 2; ++e) {
    on_receive[e] = [&, e](absl::StatusOr<ReceivedTransfer> transfer) {
      if (!transfer.ok()) return;
      orders[e].push_back(ValuesOf(*transfer)[0]);
      edges[e].receive->Acknowledge(transfer->header);
      edges[e].receive->PostReceive(on_receive[e]);
      pending.Hit();
    };
  }
  {
    ProgressThread a1(a_.get(), bell_a_.get());
    ProgressThread a2(a_.get(), bell_a_.get());
    ProgressThread b1(b_.get(), bell_b_.get());
    ProgressThread b2(b_.get(), bell_b_.get());
    for (int e = 0; e < 2; ++e) {
      for (int i = 0; i < kSlots; ++i) {
        edges[e].receive->PostReceive(on_receive[e]);
      }
    }
    for (int i = 0; i < kTransfers; ++i) {
      for (Edge& edge : edges) {
        edge.send->PostSend(HeaderOf(i), {TensorOver(values[i])},
                            [&](absl::Status status) {
                              EXPECT_TRUE(status.ok()) << status;
                              pending.Hit();
                            });
      }
    }
    ASSERT_TRUE(pending.Wait());
  }
  for (const std::vector<int64_t>& order : orders) {
    EXPECT_EQ(order.size(), kTransfers);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

// The consumer drops the memory on a thread of its own, which grants the slot
// again from there.
TEST_P(TransportThreads, SlotsMayBeReturnedFromAnyThread) {
  constexpr int kTransfers = 300;
  std::vector<std::vector<int64_t>> values;
  for (int i = 0; i < kTransfers; ++i) values.push_back({i, i + 1, i + 2});
  Edge edge = OpenEdge(a_.get(), b_.get(), PoolNamed("e", 2, 64));
  Mutex mu;
  CondVar arrived;
  std::vector<ReceivedTransfer> inbox;
  ProgressThread a1(a_.get(), bell_a_.get());
  ProgressThread b1(b_.get(), bell_b_.get());
  for (int i = 0; i < kTransfers; ++i) {
    edge.receive->PostReceive([&](absl::StatusOr<ReceivedTransfer> transfer) {
      if (!transfer.ok()) return;
      MutexLock lock(&mu);
      inbox.push_back(*std::move(transfer));
      arrived.NotifyAll();
    });
    edge.send->PostSend(HeaderOf(i), {TensorOver(values[i])},
                        [](absl::Status) {});
  }
  for (int i = 0; i < kTransfers;) {
    std::vector<ReceivedTransfer> taken;
    {
      MutexLock lock(&mu);
      while (inbox.empty()) {
        ASSERT_TRUE(arrived.WaitFor(&mu, absl::ToChronoSeconds(kTestDeadline)));
      }
      taken.swap(inbox);
    }
    for (const ReceivedTransfer& transfer : taken) {
      EXPECT_EQ(ValuesOf(transfer), values[i++]);
    }
  }
  edge = Edge();
}

TEST_P(TransportThreads, AbortAmidTransfersCompletesEachOnce) {
  constexpr int kTransfers = 200;
  constexpr int kBytes = 1 << 16;
  const std::vector<int64_t> values(kBytes / 8, 7);
  std::vector<std::atomic<int>> sent(kTransfers);
  std::vector<std::atomic<int>> received(kTransfers);
  Countdown pending(2 * kTransfers);
  Countdown some(20);
  Edge edge = OpenEdge(a_.get(), b_.get(), PoolNamed("e", 4, kBytes));
  {
    ProgressThread a1(a_.get(), bell_a_.get());
    ProgressThread a2(a_.get(), bell_a_.get());
    ProgressThread b1(b_.get(), bell_b_.get());
    for (int i = 0; i < kTransfers; ++i) {
      edge.receive->PostReceive(
          [&, i](absl::StatusOr<ReceivedTransfer> /*transfer*/) {
            ++received[i];
            some.Hit();
            pending.Hit();
          });
      edge.send->PostSend(HeaderOf(i), {TensorOver(values)},
                          [&, i](absl::Status) {
                            ++sent[i];
                            pending.Hit();
                          });
    }
    ASSERT_TRUE(some.Wait());
    a_->Abort(absl::AbortedError("epoch 7 is over"));
    b_->Abort(absl::AbortedError("epoch 7 is over"));
    ASSERT_TRUE(pending.Wait());
  }
  edge = Edge();
  for (int i = 0; i < kTransfers; ++i) {
    EXPECT_EQ(sent[i].load(), 1) << i;
    EXPECT_EQ(received[i].load(), 1) << i;
  }
}

// Once the destructor of an edge has returned, each of its operations has
// completed and nothing of the caller's is touched again.
TEST_P(TransportThreads, AnEdgeMayBeClosedWhileOthersMakeProgress) {
  constexpr int kRounds = 50;
  constexpr int kTransfers = 20;
  const std::vector<int64_t> values(1000, 7);
  ProgressThread a1(a_.get(), bell_a_.get());
  ProgressThread a2(a_.get(), bell_a_.get());
  ProgressThread b1(b_.get(), bell_b_.get());
  for (int round = 0; round < kRounds; ++round) {
    auto completions = std::make_unique<std::atomic<int>>(0);
    Edge edge = OpenEdge(a_.get(), b_.get(), PoolNamed("e", 2, 8000));
    for (int i = 0; i < kTransfers; ++i) {
      edge.receive->PostReceive(
          [count = completions.get()](absl::StatusOr<ReceivedTransfer>) {
            ++*count;
          });
      edge.send->PostSend(
          HeaderOf(i), {TensorOver(values)},
          [count = completions.get()](absl::Status) { ++*count; });
    }
    edge.send.reset();
    edge.receive.reset();
    EXPECT_EQ(completions->load(), 2 * kTransfers);
  }
}

}  // namespace stagecoach::transport
