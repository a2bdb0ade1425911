// A whole fleet in one process, ranks as threads: for the tests of this folder and of tests/.
#ifndef ZEROFLEET_WORKER_ZERO_FLEET_TESTING_H_
#define ZEROFLEET_WORKER_ZERO_FLEET_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/collective/in_process.h"
#include "worker/collective/staged.h"
#include "worker/model/foreign.h"
#include "worker/model/model_testing.h"
#include "worker/parallel/mesh.h"
#include "worker/zero/engine.h"
#include "worker/zero/faulty_model_testing.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/schedule.h"
#include "worker/zero/state_file.h"
#include "worker/zero/training_state.h"

namespace zerofleet::zero {

inline v1::OptimizerConfig TestOptimizer(const std::string& name = "adamw") {
  v1::OptimizerConfig optimizer;
  optimizer.set_name(name);
  for (const optim::OptimizerKey& key : (*optim::FindOptimizer(name))->keys) (optimizer.*key.set)(key.value_if_absent);
  optimizer.set_learning_rate(1e-2);
  optimizer.set_weight_decay(0.1);
  optimizer.set_grad_clip(0.5);
  return optimizer;
}

struct FleetSetup {
  v1::ModelConfig model = model::TestModelConfig(3, 24, 3, 10, 53);
  int stage = 0, world_size = 1;  // ranks of a data group
  device::DType dtype = device::DType::kF32;
  int64_t global_sequences = 12, micro_batches = 1;
  int64_t steps = 4;
  double learning_rate = 1e-2;
  std::function<double(int64_t step)> learning_rate_of = nullptr;  // if set, used instead of learning_rate
  int steps_ahead = 0;  // steps launched before the one before them is collected; the trainer's is 1
  uint64_t seed = 5;
  std::string device = "cpu", optimizer = "adamw";
  model::Checkpointing checkpointing = {};
  ReduceEvery reduce = ReduceEvery::kMicroBatch;
  int64_t leaves = 0;  // if above 0, sums in the order of samples, with this many micro-batches of all ranks per step
  int64_t bucket_bytes = 0;
  StatePlacement placement = {};
  std::string states_dir = {};  // if set, states that leave the device rest in a file in this folder
  int64_t delay_after = 0;      // after this many steps updates come one step late; needs states on the host; 0: never
  bool looks_ahead = false;     // late updates also leave the parameters ahead of the weights
  bool flushes = false;         // TrainFleet ends with a flush, so that no update is under way when it reads the states
  std::optional<v1::OptimizerConfig> settings = {};       // TestOptimizer's by default
  std::function<int64_t(int64_t step)> tokens = nullptr;  // if set, the tokens that a step's gradient is divided by
  StepChecks checks = {};                                 // at every check_every-th step
  int64_t check_every = 1;
  int faulty_rank = -1;  // the rank whose model has the fault; -1: none has
  Fault fault = {};
  int tensor = 1;  // ranks of a tensor group
  bool sequence = false;
  // For a foreign model (worker/model/foreign_testing.h): what computes a rank's passes, over samples numbered from
  // step.
  std::function<std::unique_ptr<model::ForeignPasses>(int rank)> make_passes = nullptr;
  bool packed = false;   // sequences hold several documents: each begins at a token that 4 divides
  double ema_decay = 0;  // for an average of the weights; 0: none is kept
  int64_t ema_start = 1;
  bool histograms = false;                                   // taken at every step
  std::function<int64_t(int64_t step)> leaves_of = nullptr;  // the leaves of steps that are smaller than `leaves`
  std::vector<std::string> freeze = {};                      // patterns of tensors (ModelSpec::Freeze)
  const optim::OptimizerRow* row = nullptr;                  // if set, used instead of `optimizer`'s
  bool rows_apart = false;                                   // no buffer shares memory with another
  // If set, make each rank's device instead of CreateDevice, and a group's communicators instead of threads' of one
  // process.
  std::function<std::unique_ptr<device::Device>(int rank)> make_device = nullptr;
  std::function<std::vector<std::unique_ptr<collective::Communicator>>(const char* name,
                                                                       const std::vector<device::Device*>& devices)>
      make_group = nullptr;
};

inline const optim::OptimizerRow* OptimizerRowOf(const FleetSetup& setup) {
  if (setup.row != nullptr) return setup.row;
  v1::Config config;
  config.mutable_optimizer()->set_name(setup.optimizer);
  config.mutable_ema()->set_decay(setup.ema_decay);
  return *optim::OptimizerOf(config);
}

inline StatePlacement PlacementOf(const FleetSetup& setup) {
  StatePlacement placement = setup.placement;
  if (!setup.states_dir.empty()) placement.residence = StatePlacement::Residence::kFile;
  if (setup.delay_after > 0) placement.timing = StatePlacement::Timing::kDelayed;
  placement.looks_ahead = setup.looks_ahead;
  return placement;
}

// What a rank of such a fleet sends in its tensor group in a step of one micro-batch, by the schedule.
inline int64_t PlannedTensorBytes(const FleetSetup& setup) {
  const model::ModelSpec spec = *model::ModelSpec::Create(setup.model, {.index = 0, .count = setup.tensor});
  const ZeroLayout layout(spec, {.stage = setup.stage, .dtype = setup.dtype});
  const v1::OptimizerConfig optimizer = TestOptimizer();
  const model::ModelRun run = {.sequences = setup.global_sequences,
                               .time = setup.model.context(),
                               .checkpointing = setup.checkpointing,
                               .sharing = {.sequence = setup.sequence}};
  return BytesSent(*StepSchedule({setup.model, optimizer, spec, layout, run}), parallel::kTensorGroup, setup.tensor);
}

// The device kinds this build has and this machine can make: what a fleet's tests run on.
inline std::vector<std::string> UsableDevices() {
  std::vector<std::string> kinds;
  for (const std::string& kind : device::DeviceKindsBuilt()) {
    if (device::ResolveDeviceKind(kind).ok()) kinds.push_back(kind);
  }
  return kinds;
}

// `inner` itself, or staged through host memory where the host cannot read the device's.
inline std::unique_ptr<collective::Communicator> CommunicatorOn(device::Device& device,
                                                                std::unique_ptr<collective::Communicator> inner) {
  return device.host_addressable() ? std::move(inner) : *collective::CreateStagedCommunicator(device, std::move(inner));
}

inline model::ModelSpec SpecOf(const FleetSetup& setup, int part) {
  model::ModelSpec spec = *model::ModelSpec::Create(setup.model, {part, setup.tensor});
  if (!setup.freeze.empty()) ZF_CHECK(spec.Freeze(setup.freeze).ok());
  return spec;
}

// One rank with all its parts.
class TestRank {
 public:
  // `tensor` is the tensor group's communicator; null where the model is whole.
  TestRank(const FleetSetup& setup, std::unique_ptr<device::Device> device,
           std::unique_ptr<collective::Communicator> communicator,
           std::unique_ptr<collective::Communicator> tensor = nullptr)
      : setup_(setup),
        device_(std::move(device)),
        passes_(setup.make_passes ? setup.make_passes(communicator->rank()) : nullptr),
        communicator_(std::move(communicator)),
        tensor_(std::move(tensor)),
        spec_(SpecOf(setup, tensor_ ? tensor_->rank() : 0)),
        stream_(*device_->CreateStream()),
        model_(CreateModel()),
        layout_(spec_, {.stage = setup.stage,
                        .dtype = setup.dtype,
                        .micro_batches = MicroBatches(setup),
                        .rank = communicator_->rank(),
                        .world_size = setup.world_size,
                        .optimizer = OptimizerRowOf(setup),
                        .reduce = setup.reduce,
                        .order = setup.leaves > 0 ? ReduceOrder::kSamples : ReduceOrder::kRanks,
                        .leaves = setup.leaves,
                        .bucket_bytes = setup.bucket_bytes,
                        .placement = PlacementOf(setup),
                        .histograms = setup.histograms}) {
    communicator_->SetObserver([this](const collective::CollectiveRecord& record) { records_.push_back(record); });
    if (tensor_ != nullptr) {
      tensor_->SetObserver([this](const collective::CollectiveRecord& one) { tensor_records_.push_back(one); });
    }
    memory::MemoryPlan plan = PlanMemory(*model_, layout_, sequences() * setup.model.context(), {}, arrays());
    for (memory::MemoryRow& row : plan.rows) {
      if (setup.rows_apart) row.pieces.clear();
    }
    arena_ = *memory::Arena::Create(plan, memory::Space::kDevice, *device_);
    host_arena_ = *memory::Arena::Create(plan, memory::Space::kHost, *device_);
    if (layout_.states_in_file()) {
      scratch_ = *memory::ScratchFile::Create(setup.states_dir, "states", StateFile::FileBytes(layout_));
    }
    engine_ = std::make_unique<ZeroEngine>(EngineParts{spec_,
                                                       layout_,
                                                       *model_,
                                                       *device_,
                                                       *stream_,
                                                       *arena_,
                                                       *host_arena_,
                                                       *communicator_,
                                                       {},
                                                       tensor_.get(),
                                                       scratch_.get()},
                                           setup.settings.value_or(TestOptimizer(setup.optimizer)));
    tokens_ = arena_->TakeAs<int32_t>(kTokensRow);
  }

  // A rank that leaves while its last gathers are under way would leave the others waiting.
  bool Finish() { return engine_ == nullptr || engine_->Finish().ok(); }

  // Records of operations are complete only once the communicator has stopped.
  std::vector<collective::CollectiveRecord> StopAndTakeRecords() {
    engine_.reset();
    communicator_.reset();
    tensor_.reset();
    return std::move(records_);
  }
  // Call after StopAndTakeRecords.
  std::vector<collective::CollectiveRecord> TakeTensorRecords() { return std::move(tensor_records_); }

  StepResult Step(int64_t step) {
    absl::StatusOr<StepResult> result = TryStep(step);
    ZF_CHECK(result.ok());
    return *result;
  }
  absl::StatusOr<StepResult> TryStep(int64_t step, uint64_t flags = 0) {
    ZF_RETURN_IF_ERROR(Launch(step, flags));
    return engine_->Collect();
  }
  absl::Status Launch(int64_t step, uint64_t flags = 0) {
    const int64_t tokens = passes_         ? 0
                           : setup_.tokens ? setup_.tokens(step)
                                           : setup_.global_sequences * setup_.model.context();
    const StepChecks checks = step % setup_.check_every == 0 ? setup_.checks : StepChecks();
    const bool delayed = setup_.delay_after > 0 && step > setup_.delay_after;
    const double rate = setup_.learning_rate_of ? setup_.learning_rate_of(step) : setup_.learning_rate;
    StepInput input{step, rate, tokens, flags, checks, delayed, setup_.looks_ahead};
    if (setup_.leaves_of) {
      input.batch = {CeilDivide(setup_.leaves_of(step), setup_.world_size), setup_.leaves_of(step)};
      input.tokens = setup_.leaves_of(step) * sequences() * setup_.model.context();
    }
    input.ema_decay = setup_.ema_decay;
    input.ema_start = setup_.ema_start;
    input.histograms = setup_.histograms;
    return engine_->Launch(input, [&](int number, int64_t micro) { return BatchOf(number, step, micro); });
  }

  // `count` floats of device memory, read once everything enqueued is done.
  std::vector<float> Read(const void* from, int64_t count) {
    std::vector<float> values(count);
    device_->Copy(*stream_, values.data(), from, count * static_cast<int64_t>(sizeof(float)));
    ZF_CHECK(stream_->Synchronize().ok());
    return values;
  }
  void Write(void* to, const std::vector<float>& values) {
    device_->Copy(*stream_, to, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
    ZF_CHECK(stream_->Synchronize().ok());
  }

  ZeroEngine& engine() { return *engine_; }
  device::Device& device() { return *device_; }
  device::Stream& stream() { return *stream_; }
  memory::Arena& arena() { return *arena_; }
  memory::Arena& host_arena() { return *host_arena_; }
  collective::Communicator& communicator() { return *communicator_; }
  collective::Communicator& tensor() { return *tensor_; }
  memory::ScratchFile& scratch() { return *scratch_; }
  const ZeroLayout& layout() const { return layout_; }
  const model::ModelSpec& spec() const { return spec_; }
  const model::Model& model() const { return *model_; }

  absl::StatusOr<model::MicroBatch> Batch(int64_t step, int64_t micro) {
    return BatchOf(layout_.options().rank, step, micro);
  }
  // The global batch depends on the step alone; a rank's part is cut out of it.
  absl::StatusOr<model::MicroBatch> BatchOf(int number, int64_t step, int64_t micro) {
    int64_t context = setup_.model.context(), count = sequences();
    if (passes_ != nullptr) return SamplesOf(number, step, micro);
    std::mt19937 random(static_cast<uint32_t>(step));
    std::vector<int32_t> all(setup_.global_sequences * (context + 1));
    for (int32_t& token : all) token = static_cast<int32_t>(random() % setup_.model.vocab());
    int64_t first = number * count * setup_.micro_batches + micro * count;
    const int64_t leaves = setup_.leaves_of ? setup_.leaves_of(step) : setup_.leaves;
    if (leaves > 0) first = (micro * setup_.world_size + number) % leaves * count;
    // Pinned and never written again, so that the host does not wait for the copy.
    const int64_t bytes = arrays() * count * context * static_cast<int64_t>(sizeof(int32_t));
    batches_.push_back(*device_->ReserveHost(bytes));
    int32_t* const mine = reinterpret_cast<int32_t*>(batches_.back()->data());
    for (int64_t i = 0; i < count; ++i) {
      const int32_t* sample = &all[(first + i) * (context + 1)];
      std::copy_n(sample, context, &mine[i * context]);
      std::copy_n(sample + 1, context, &mine[(count + i) * context]);
      for (int32_t t = 0, start = 0; setup_.packed && t < context; ++t) {
        if (sample[t] % 4 == 0) start = t;
        mine[(2 * count + i) * context + t] = start;
      }
    }
    device_->Copy(*stream_, tokens_, mine, bytes);
    model::MicroBatch batch{count, context, tokens_, tokens_ + count * context};
    if (setup_.packed) batch.starts = tokens_ + 2 * count * context;
    return batch;
  }

 private:
  model::MicroBatch SamplesOf(int number, int64_t step, int64_t micro) {
    const int64_t count = sequences();
    int64_t first = number * count * setup_.micro_batches + micro * count;
    if (setup_.leaves > 0) first = (micro * setup_.world_size + number) % setup_.leaves * count;
    samples_.clear();
    for (int64_t i = 0; i < count; ++i) samples_.push_back(first + i + step);
    model::MicroBatch batch{count, setup_.model.context(), nullptr, nullptr};
    batch.samples = samples_;
    return batch;
  }
  std::unique_ptr<model::Model> CreateModel() {
    model::Checkpointing checkpointing = setup_.checkpointing;
    checkpointing.band_bytes = setup_.bucket_bytes;
    std::unique_ptr<model::Model> model = *model::Model::Create(setup_.model,
                                                                {setup_.dtype,
                                                                 sequences(),
                                                                 setup_.model.context(),
                                                                 checkpointing,
                                                                 {.parts = setup_.tensor, .sequence = setup_.sequence},
                                                                 /*terms=*/{},
                                                                 passes_.get()},
                                                                *device_);
    if (communicator_->rank() != setup_.faulty_rank) return model;
    return std::make_unique<FaultyModel>(std::move(model), spec_, setup_.fault);
  }
  static int64_t MicroBatches(const FleetSetup& setup) {
    return setup.leaves > 0 ? CeilDivide(setup.leaves, setup.world_size) : setup.micro_batches;
  }
  int arrays() const { return setup_.packed ? 3 : 2; }
  int64_t sequences() const {
    const int64_t parts = setup_.leaves > 0 ? setup_.leaves : setup_.world_size * setup_.micro_batches;
    return setup_.global_sequences / parts;
  }

  const FleetSetup setup_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<model::ForeignPasses> passes_;  // null: the model is ours
  std::vector<int64_t> samples_;
  std::vector<std::unique_ptr<device::Reservation>> batches_;
  std::vector<collective::CollectiveRecord> records_, tensor_records_;  // outlive whoever writes them
  std::unique_ptr<collective::Communicator> communicator_, tensor_;
  model::ModelSpec spec_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<model::Model> model_;
  ZeroLayout layout_;
  std::unique_ptr<memory::Arena> arena_, host_arena_;
  std::unique_ptr<memory::ScratchFile> scratch_;
  std::unique_ptr<ZeroEngine> engine_;
  int32_t* tokens_;
};

// The communicators of one group, by rank in it.
inline std::vector<std::unique_ptr<collective::Communicator>> MakeGroup(const FleetSetup& setup, const char* name,
                                                                        const std::vector<device::Device*>& devices) {
  if (setup.make_group) return setup.make_group(name, devices);
  auto group = collective::CreateInProcessGroup(name, static_cast<int>(devices.size()));
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    group[rank] = CommunicatorOn(*devices[rank], std::move(group[rank]));
  }
  return group;
}

// Runs `body` on every rank, each in its own thread.
inline void RunFleet(const FleetSetup& setup, const std::function<void(TestRank&)>& body) {
  const int ranks = setup.world_size * setup.tensor;
  std::vector<std::unique_ptr<device::Device>> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(setup.make_device ? setup.make_device(rank)
                                        : *device::CreateDevice({.kind = setup.device, .threads = 1}));
  }
  std::vector<std::unique_ptr<collective::Communicator>> data(ranks), tensor(ranks);
  // A group's ranks are `first` and every `step`-th rank after it.
  const auto join = [&](const char* name, int first, int step, int size, auto& communicators) {
    std::vector<device::Device*> of_group;
    for (int rank = 0; rank < size; ++rank) of_group.push_back(devices[first + rank * step].get());
    auto group = MakeGroup(setup, name, of_group);
    for (int rank = 0; rank < size; ++rank) communicators[first + rank * step] = std::move(group[rank]);
  };
  for (int part = 0; part < setup.tensor; ++part) {
    join(parallel::kDataGroup, part, setup.tensor, setup.world_size, data);
  }
  for (int first = 0; setup.tensor > 1 && first < ranks; first += setup.tensor) {
    join(parallel::kTensorGroup, first, 1, setup.tensor, tensor);
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TestRank one(setup, std::move(devices[rank]), std::move(data[rank]), std::move(tensor[rank]));
      body(one);
      ZF_CHECK(one.Finish());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct FleetResult {
  std::vector<double> losses, grad_norms;
  std::vector<std::vector<float>> states;  // the whole model's, put together from the owners'

  const std::vector<float>& master() const { return states[0]; }
};

// Trains from the seed and collects what every stage must agree on.
inline FleetResult TrainFleet(const FleetSetup& setup) {
  FleetResult result;
  int64_t parameters = model::ModelSpec::Create(setup.model)->parameters();
  absl::Mutex mutex;  // parts of a model have some tensors in common
  result.states.assign(OptimizerRowOf(setup)->vectors.size(), std::vector<float>(parameters));
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    const auto collect = [&] {
      const absl::StatusOr<StepResult> outcome = rank.engine().Collect();
      ZF_CHECK(outcome.ok());
      if (rank.layout().options().rank != 0 || rank.layout().part().index != 0) return;
      result.losses.push_back(outcome->loss);
      result.grad_norms.push_back(outcome->grad_norm);
    };
    for (int64_t step = 1; step <= setup.steps; ++step) {
      ZF_CHECK(rank.Launch(step).ok());
      while (rank.engine().launched() > setup.steps_ahead) collect();
    }
    while (rank.engine().launched() > 0) collect();
    if (setup.flushes) ZF_CHECK(rank.engine().Flush().ok());
    const absl::MutexLock lock(&mutex);
    for (const coordinator::PlacedRange& range : rank.spec().ToWhole(rank.engine().state().RangesToStore())) {
      const TrainingState& state = rank.engine().state();
      for (size_t v = 0; v < state.vector_count(); ++v) {
        float* const to = &result.states[v][range.flat_begin];
        ZF_CHECK(state.CopyOut(rank.device(), rank.stream(), v, range.offset, range.elements(), to).ok());
      }
      ZF_CHECK(rank.stream().Synchronize().ok());
    }
  });
  return result;
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_FLEET_TESTING_H_
