// A step of the real engine on a device without memory, in a group that moves nothing; see schedule.h.
#include "worker/zero/schedule.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/device/dry/dry_device.h"
#include "worker/parallel/mesh.h"
#include "worker/zero/engine.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {
namespace {

// Records every operation and completes it at once.
class DryCommunicator : public collective::Communicator {
 public:
  DryCommunicator(std::string group, int rank, int size)
      : collective::Communicator(std::move(group), collective::Topology(rank, size)) {
    SetObserver([this](const collective::CollectiveRecord& record) {
      posted_.push_back({this->group(), record.operation, record.unit, record.gathered_bytes});
    });
    StartThread();
  }
  ~DryCommunicator() override { StopThread(); }

  std::string backend() const override { return "dry"; }

  // Call once nothing more is posted.
  std::vector<ScheduledCollective> TakePosted() {
    StopThread();
    return std::move(posted_);
  }

 protected:
  absl::Status RunAllGather(const void*, void*, int64_t, int64_t) override { return absl::OkStatus(); }
  absl::Status RunReduceScatter(device::Tensor, device::Tensor, int64_t, const collective::SumChain&) override {
    return absl::OkStatus();
  }

 private:
  std::vector<ScheduledCollective> posted_;
};

}  // namespace

absl::StatusOr<std::vector<ScheduledCollective>> StepSchedule(const PlannedStep& step) {
  const ZeroLayout& layout = step.layout;
  device::DryDevice device;
  const int32_t* const tokens = static_cast<int32_t*>(device::DryDevice::Address());
  const model::MicroBatch batch = {step.run.sequences, step.run.time, tokens, tokens};
  model::ModelRun run = step.run;
  run.dtype = layout.options().dtype;
  run.checkpointing.band_bytes = layout.options().bucket_bytes;
  run.sharing.parts = layout.part().count;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> dry_model, model::Model::Create(step.model, run, device));
  const memory::MemoryPlan plan = PlanMemory(*dry_model, layout, batch.sequences * batch.time);
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<memory::Arena> device_arena,
                      memory::Arena::Create(plan, memory::Space::kDevice, device));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<memory::Arena> host_arena,
                      memory::Arena::Create(plan, memory::Space::kHost, device));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  DryCommunicator communicator(parallel::kDataGroup, layout.options().rank, layout.options().world_size);
  std::unique_ptr<DryCommunicator> tensor;
  if (layout.part().count > 1) {
    tensor = std::make_unique<DryCommunicator>(parallel::kTensorGroup, layout.part().index, layout.part().count);
  }
  EngineParts parts{step.spec, layout, *dry_model, device, *stream, *device_arena, *host_arena, communicator};
  parts.tensor = tensor.get();
  ZeroEngine engine(parts, step.optimizer);
  const StepInput input = {.step = 1,
                           .learning_rate = 0,
                           .tokens = 1,
                           .checks = step.checks,
                           .delayed = layout.delays(),
                           .looks_ahead = layout.looks_ahead()};
  ZF_RETURN_IF_ERROR(engine.Launch(input, [&](int, int64_t) { return batch; }));
  ZF_RETURN_IF_ERROR(engine.Finish());
  std::vector<ScheduledCollective> schedule = communicator.TakePosted();
  if (tensor != nullptr) {
    const std::vector<ScheduledCollective> in_tensor_group = tensor->TakePosted();
    schedule.insert(schedule.end(), in_tensor_group.begin(), in_tensor_group.end());
  }
  return schedule;
}

int64_t BytesSent(const std::vector<ScheduledCollective>& schedule, const std::string& group, int size) {
  const collective::Topology topology(/*rank=*/0, size);
  int64_t sent = 0;
  for (const ScheduledCollective& one : schedule) {
    if (one.group != group) continue;
    const bool gathers = one.operation != collective::Operation::kReduceScatter;
    const bool reduces = one.operation != collective::Operation::kAllGather;
    if (gathers) sent += collective::AllGatherTraffic(topology, one.bytes, /*element_bytes=*/1).sent;
    if (reduces) sent += collective::ReduceScatterTraffic(topology, one.bytes, /*element_bytes=*/1).sent;
  }
  return sent;
}

std::string DescribeSchedule(const std::vector<ScheduledCollective>& schedule) {
  std::string text;
  for (const ScheduledCollective& one : schedule) {
    absl::StrAppend(&text, one.group, " ", collective::OperationName(one.operation), " ", one.unit, " ", one.bytes,
                    "\n");
  }
  return text;
}

}  // namespace zerofleet::zero
