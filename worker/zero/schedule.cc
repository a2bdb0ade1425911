// The list of a step's collectives, stage by stage; see schedule.h.
#include "worker/zero/schedule.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/zero/prefetch.h"
#include "worker/zero/slots.h"

namespace zerofleet {
namespace {

// Replays the model's events through the same rules the gatherer and the reducer follow.
class Builder {
 public:
  Builder(const Model& model, const ZeroLayout& layout)
      : model_(model), layout_(layout), prefetch_(PlanSlots(layout.partition())) {}

  std::vector<ScheduledCollective> Build() {
    for (int64_t micro = 0; micro < layout_.options().micro_batches; ++micro) MicroBatch(micro);
    list_.push_back({kDataGroup, Operation::kAllGather, kScalarsUnit, 0, DType::kF32});
    if (layout_.stage().gather == ParameterGather::kAfterUpdate) {
      for (int u = 0; u < layout_.units(); ++u) Gather(u);
    }
    return std::move(list_);
  }

 private:
  void MicroBatch(int64_t micro) {
    bool gathers = layout_.stage().gather == ParameterGather::kBeforeUse;
    bool reduces = layout_.stage().split_gradients || micro + 1 == layout_.options().micro_batches;
    std::vector<UnitEvent> events = model_.TrainingEvents();
    if (gathers) prefetch_.Begin(UsedUnits(events));
    for (const UnitEvent& event : events) {
      if (event.kind == UnitEvent::kAcquire && gathers) {
        for (int unit : prefetch_.Acquire(event.unit)) Gather(unit);
      }
      if (event.kind == UnitEvent::kRelease && gathers) prefetch_.Release(event.unit);
      if (event.kind == UnitEvent::kDeliver && reduces) Reduce(event.unit);
    }
  }

  void Gather(int unit) {
    list_.push_back({kDataGroup, Operation::kAllGather, Name(unit), Elements(unit), layout_.options().dtype});
  }

  void Reduce(int unit) {
    DType wire = layout_.stage().split_gradients ? layout_.options().dtype : layout_.gradient_dtype();
    list_.push_back({kDataGroup, Operation::kReduceScatter, Name(unit), Elements(unit), wire});
    if (!layout_.stage().split_optimizer) {
      list_.push_back({kDataGroup, Operation::kAllGather, Name(unit), Elements(unit), layout_.gradient_dtype()});
    }
  }

  const std::string& Name(int unit) const { return layout_.partition().unit(unit).name; }
  int64_t Elements(int unit) const { return layout_.partition().PaddedElements(unit); }

  const Model& model_;
  const ZeroLayout& layout_;
  PrefetchOrder prefetch_;
  std::vector<ScheduledCollective> list_;
};

}  // namespace

std::vector<ScheduledCollective> StepSchedule(const Model& model, const ZeroLayout& layout) {
  return Builder(model, layout).Build();
}

std::string DescribeSchedule(const std::vector<ScheduledCollective>& schedule) {
  std::string text;
  for (const ScheduledCollective& one : schedule) {
    absl::StrAppend(&text, one.group, " ", OperationName(one.operation), " ", one.unit, " ", one.elements, " ",
                    DTypeName(one.dtype), "\n");
  }
  return text;
}

}  // namespace zerofleet
