// States that rest in a file (offload.optimizer: nvme): the bits of states in memory, a bounded share of them in
// memory, and no byte used that differs from what was written.
#include "worker/zero/state_file.h"

#include <memory>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Directory() { return absl::StrCat(testing::TempDir(), "/state_file_test"); }

void ExpectTheBitsOfMemory(FleetSetup setup, const std::string& what) {
  setup.placement = kStatesOnHost;
  FleetSetup in_file = setup;
  in_file.states_dir = Directory();
  ExpectTheSameRun(setup, in_file, what);
}

TEST(StateFile, GivesTheBitsOfStatesInMemory) {
  using enum device::DType;
  for (const device::DType dtype : {kF32, kBF16, kF16}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (int world_size = 1; world_size <= 3; ++world_size) {
        ExpectTheBitsOfMemory(OffloadFleet(stage, world_size, dtype, 5),
                              absl::StrCat(device::DTypeName(dtype), ", stage ", stage, ", ", world_size, " ranks"));
      }
    }
  }
  EXPECT_THAT(*ListDirectory(Directory()), IsEmpty());
}

TEST(StateFile, GivesTheSameBitsWithOtherSettings) {
  FleetSetup setup = OffloadFleet(3, 2, device::DType::kBF16, 6);
  setup.placement.fraction = 0.6;
  ExpectTheBitsOfMemory(setup, "a part of the states");
  setup.placement.fraction = 1;
  setup.delay_after = 2;
  ExpectTheBitsOfMemory(setup, "late updates");
  setup.delay_after = 0;
  setup.optimizer = "sgd";
  ExpectTheBitsOfMemory(setup, "sgd");
  setup.make_device = [](int) { return std::make_unique<AwayDevice>(); };
  setup.steps_ahead = 1;
  ExpectTheBitsOfMemory(setup, "beside the steps");
  setup.make_device = nullptr;
  setup.steps_ahead = 0;
  setup.placement.parameters_on_host = true;
  ExpectTheBitsOfMemory(setup, "parameters on the host");
}

TEST(StateFile, GivesTheSameBitsTileByTile) { ExpectTheBitsOfMemory(FleetOfSeveralTiles(2), "several tiles"); }

TEST(StateFile, HoldsThreeTilesInMemory) {
  FleetSetup setup = FleetOfSeveralTiles(2);
  setup.placement = kStatesOnHost;
  setup.states_dir = Directory();
  RunFleet(setup, [&](TestRank& rank) {
    EXPECT_GT(StateTiles(rank.layout()).size(), 4);
    EXPECT_EQ(BytesIn(rank.host_arena(), memory::Category::kOptimizer), 0);
    EXPECT_EQ(BytesIn(rank.arena(), memory::Category::kOptimizer), 0);
    // Memory for three tiles of three vectors, and for one vector of a tile on its way to a checkpoint.
    constexpr int64_t kPiece = 4 * kMostTileElements, kBlock = memory::ScratchFile::kBlock;
    int64_t rows = 0;
    for (const memory::MemoryRow& row : StateFile::Rows(rank.layout())) rows += row.bytes;
    EXPECT_EQ(rows, 10 * kPiece + kBlock);
  });
}

// The states of a lone rank, without a fleet around them.
struct FileOfSeveralTiles {
  const FleetSetup setup = FleetOfSeveralTiles(2);
  const ZeroLayout layout{*model::ModelSpec::Create(setup.model),
                          {.stage = 2, .dtype = setup.dtype, .placement = kStatesInFile}};
  const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const std::unique_ptr<memory::Arena> arena =
      *memory::Arena::Create(memory::MemoryPlan{StateFile::Rows(layout)}, memory::Space::kHost, *device);
  const std::unique_ptr<memory::ScratchFile> scratch =
      *memory::ScratchFile::Create(Directory(), "states", StateFile::FileBytes(layout));
  StateFile file{layout, *scratch, *arena};
};

// Every state is read and written once a step.
TEST(StateFile, MovesEachByteOnceAStep) {
  FileOfSeveralTiles states;
  StateFile& file = states.file;
  const auto pass = [&](bool fills) {
    for (size_t t = 0; t < file.tiles().size(); ++t) {
      ASSERT_TRUE((fills ? file.OpenToFill(t) : file.Open(t)).ok());
      file.Close(t, /*changed=*/true);
    }
  };
  pass(true);
  pass(false);
  std::vector<float> one(1);  // runs after all that is under way
  ASSERT_TRUE(file.CopyOut(0, states.layout.Updated(0).state_offset, 1, reinterpret_cast<std::byte*>(one.data())).ok());
  const int64_t all = StateFile::FileBytes(states.layout);
  EXPECT_EQ(file.bytes_written(), 2 * all);
  EXPECT_EQ(file.bytes_read() - RoundUp(4 * file.tiles()[0].count, memory::ScratchFile::kBlock), all);
}

// A pass over some of the vectors does not move the others, nor change them.
TEST(StateFile, MovesTheVectorsThatAPassIsOf) {
  FileOfSeveralTiles states;
  StateFile& file = states.file;
  // Opens each tile twice, as an optimizer does that goes over a unit more than once.
  for (size_t t = 0; t < file.tiles().size(); ++t) {
    const optim::StateTensors filled = file.OpenToFill(t).value();
    for (size_t v = 0; v < filled.size(); ++v) static_cast<float*>(filled[v].data)[0] = static_cast<float>(10 * t + v);
    file.Close(t, /*changed=*/true);
    const auto only = file.Open(t, /*vectors=*/2, /*reads_on=*/false).value();
    EXPECT_EQ(static_cast<float*>(only[1].data)[0], 10 * t + 1);
    static_cast<float*>(only[1].data)[0] = -1;
    file.Close(t, /*changed=*/true);
  }
  for (size_t t = 0; t < file.tiles().size(); ++t) {
    const auto all = file.Open(t).value();
    EXPECT_EQ(static_cast<float*>(all[0].data)[0], 10 * t);
    EXPECT_EQ(static_cast<float*>(all[1].data)[0], -1);
    EXPECT_EQ(static_cast<float*>(all[2].data)[0], 10 * t + 2);
    file.Close(t, /*changed=*/false);
  }
  const int64_t all = StateFile::FileBytes(states.layout);
  EXPECT_EQ(file.bytes_written(), all + all / 3);
  EXPECT_EQ(file.bytes_read(), all + all / 3);
}

TEST(StateFile, CopiesAnyRange) {
  FleetSetup setup = FleetOfSeveralTiles(2);
  setup.placement = kStatesOnHost;
  setup.placement.fraction = 0.7;
  setup.states_dir = Directory();
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    TrainingState& state = rank.engine().state();
    const int64_t all = rank.layout().optimizer_elements();
    for (size_t v = 0; v < state.vector_count(); ++v) {
      std::vector<float> wanted(static_cast<size_t>(all));
      std::iota(wanted.begin(), wanted.end(), static_cast<float>(v) * 0.5f);
      // Every other one first: a tile's parts do not follow each other.
      for (const int64_t from : {0, 100'001}) {
        for (int64_t begin = from; begin < all; begin += 2 * 100'001) {
          const int64_t count = std::min<int64_t>(100'001, all - begin);
          ZF_CHECK(state.CopyIn(rank.device(), rank.stream(), v, begin, count, &wanted[begin]).ok());
        }
      }
      std::vector<float> got(wanted.size());
      for (int64_t begin = 0; begin < all; begin += 77'773) {
        const int64_t count = std::min<int64_t>(77'773, all - begin);
        ZF_CHECK(state.CopyOut(rank.device(), rank.stream(), v, begin, count, &got[begin]).ok());
      }
      EXPECT_EQ(got, wanted);
    }
  });
}

TEST(StateFile, NamesWhatTheDiskHasChanged) {
  FleetSetup setup = OffloadFleet(2, 1, device::DType::kBF16, 3);
  setup.placement = kStatesOnHost;
  setup.states_dir = Directory();
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    ZF_CHECK(rank.TryStep(1).ok());
    float weight;  // runs after what is still being written
    ZF_CHECK(rank.engine().state().CopyOut(rank.device(), rank.stream(), 0, 0, 1, &weight).ok());
    constexpr int64_t kBlock = memory::ScratchFile::kBlock;
    const auto memory = *rank.device().ReserveHost(2 * kBlock);
    std::byte* const block = memory->data() + (kBlock - reinterpret_cast<uintptr_t>(memory->data()) % kBlock) % kBlock;
    ZF_CHECK(rank.scratch().Read(kBlock, {block, kBlock}).ok());
    block[5] ^= std::byte{4};
    ZF_CHECK(rank.scratch().Write(kBlock, {block, kBlock}).ok());
    const absl::Status status = rank.TryStep(2).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(memory::IsOfScratchFile(status));  // so that a replacement may do better
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(rank.scratch().path()), HasSubstr(" bytes at 0, of master, are not those"),
                      HasSubstr("their XXH3-128 is ")));
    rank.StopAndTakeRecords();
  });
}

}  // namespace
}  // namespace zerofleet::zero
