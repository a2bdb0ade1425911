// Inputs copied out and back on streams that run late or early, and the memory and traffic that this takes.
#include "worker/model/kept_inputs.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_device.h"

namespace zerofleet::model {
namespace {

using ::testing::Each;

// Runs work as late as it may: when the stream is synchronized, or another stream reaches a wait for it. Or as early as
// it may: when it is enqueued, after what it waits for. So a missing wait shows in the result.
class TestStream : public device::Stream {
 public:
  explicit TestStream(bool early) : early_(early) {}
  absl::Status Synchronize() override {
    RunTo(done_ + static_cast<int64_t>(work_.size()));
    return absl::OkStatus();
  }
  absl::Status failure() const override { return absl::OkStatus(); }
  std::shared_ptr<device::Event> Record() override {
    return std::make_shared<StreamEvent>(*this, done_ + static_cast<int64_t>(work_.size()));
  }
  void Wait(const device::Event& event) override {
    const auto& late = static_cast<const StreamEvent&>(event);
    Add([&other = late.stream, place = late.place] { other.RunTo(place); });
  }
  void Add(std::function<void()> work) {
    work_.push_back(std::move(work));
    if (early_) ZF_CHECK(Synchronize().ok());
  }
  void RunTo(int64_t place) {
    while (done_ < place) {
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      next();
      ++done_;
    }
  }

 private:
  struct StreamEvent : public device::Event {
    StreamEvent(TestStream& of, int64_t at) : stream(of), place(at) {}
    absl::StatusOr<bool> Reached() const override { return stream.done_ >= place; }
    absl::Status Wait() const override { return absl::UnimplementedError("the host waits for nothing here"); }
    double SecondsSince(const device::Event&) const override { return 0; }
    TestStream& stream;
    const int64_t place;
  };

  const bool early_;
  std::deque<std::function<void()>> work_;
  int64_t done_ = 0;
};

class TestDevice : public device::CpuDevice {
 public:
  explicit TestDevice(bool early_copies = false) : CpuDevice(1), early_copies_(early_copies) {}
  absl::StatusOr<std::unique_ptr<device::Stream>> CreateStream() override {
    return std::make_unique<TestStream>(early_copies_);
  }
  void Copy(device::Stream& stream, void* to, const void* from, int64_t bytes) override {
    static_cast<TestStream&>(stream).Add([=] { std::memmove(to, from, bytes); });
  }

 private:
  const bool early_copies_;
};

constexpr int64_t kSegments = 6, kElements = 50;

std::vector<float> Values(int64_t segment) {
  std::vector<float> values(kElements);
  std::iota(values.begin(), values.end(), 1000.0F * static_cast<float>(segment));
  return values;
}

// Runs two micro-batches whose segments each make an input and need it again; returns whether the backward found each
// input.
std::vector<bool> FindInputs(KeptInputs& inputs) {
  TestStream late(/*early=*/false);
  std::vector<std::byte> memory(inputs.DeviceBytes()), host(inputs.HostBytes());
  const KeptInputs::Pass pass{memory.data(), host.data(), kElements, nullptr, late};
  const auto whole = [&](int64_t segment) { return reinterpret_cast<float*>(&memory[inputs.WholeAt(segment)]); };
  std::vector<bool> found;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    const auto make = [&, micro_batch](int64_t segment) {
      late.Add([=] { std::ranges::copy(Values(micro_batch * 10 + segment), whole(segment)); });
    };
    make(0);
    for (int64_t segment = 0; segment < kSegments; ++segment) {
      inputs.Keep(pass, segment);
      if (segment + 1 < kSegments) make(segment + 1);
    }
    for (int64_t segment = kSegments - 1; segment >= 0; --segment) {
      if (segment < kSegments - 1) ZF_CHECK(inputs.Fetch(pass, segment, "block").ok());
      late.Add([&, micro_batch, at = whole(segment), segment] {
        found.push_back(std::ranges::equal(Values(micro_batch * 10 + segment), std::span(at, kElements)));
      });
    }
    inputs.Join(late);
  }
  ZF_CHECK(late.Synchronize().ok());
  ZF_CHECK(found.size() == 2 * kSegments);
  return found;
}

TEST(KeptInputs, AreThereAgainInTheOrderOfTheStreams) {
  for (const bool early_copies : {false, true}) {
    for (const bool offload : {false, true}) {
      TestDevice device(early_copies);
      KeptInputs inputs({.segment = 1, .offload = offload}, kSegments, kElements, device::DType::kF32, 1, device);
      EXPECT_THAT(FindInputs(inputs), Each(true)) << early_copies << " " << offload;
    }
  }
}

TEST(KeptInputs, LeaveTwoOnTheDeviceAndCrossTheLinkOnceEachWay) {
  TestDevice device;
  KeptInputs inputs({.segment = 1, .offload = true}, kSegments, kElements, device::DType::kF32, 1, device);
  EXPECT_EQ(inputs.DeviceBytes(), 2 * 256);  // 200 bytes, rounded up to a multiple of 64
  EXPECT_EQ(inputs.HostBytes(), 4 * 256);
  FindInputs(inputs);
  EXPECT_EQ(inputs.link().to_host.copies, 2 * 4);
  EXPECT_EQ(inputs.link().to_host.bytes, 2 * 4 * kElements * 4);
  EXPECT_EQ(inputs.link().to_device.bytes, inputs.link().to_host.bytes);
}

TEST(KeptInputs, OfASegmentOrTwoStayOnTheDevice) {
  TestDevice device;
  for (const int64_t segments : {1, 2}) {
    KeptInputs inputs({.segment = 1, .offload = true}, segments, kElements, device::DType::kF32, 1, device);
    EXPECT_EQ(inputs.DeviceBytes(), segments * 256);
    EXPECT_EQ(inputs.HostBytes(), 0);
  }
}

}  // namespace
}  // namespace zerofleet::model
