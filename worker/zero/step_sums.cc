// Squares, sums and their gather; see step_sums.h.
#include "worker/zero/step_sums.h"

#include "base/status.h"
#include "worker/zero/norm.h"
#include "worker/zero/sum_rows.h"

namespace zerofleet::zero {
StepSums::StepSums(const EngineParts& parts, CommunicatorTensorGroup* tensor)
    : parts_(parts),
      tensor_(tensor),
      exact_(parts.layout.chains()),
      scalars_bytes_(ScalarsBytesEach(parts.layout)),
      losses_(parts.device_arena.TakeAs<double>(kSumsRow)),
      weights_(losses_ + parts.layout.options().micro_batches),
      squares_(weights_ + parts.layout.options().micro_batches),
      all_(static_cast<std::byte*>(parts.device_arena.Take(kScalarsRow)) + scalars_bytes_),
      mine_(all_ - scalars_bytes_) {
  const model::ModelPart& part = parts_.layout.part();
  if (tensor_ != nullptr) mine_ = all_ + (parts_.communicator.rank() * part.count + part.index) * scalars_bytes_;
}

void StepSums::AddSquares(int unit, device::Tensor gradient) {
  if (exact_) {
    SumOwnedSquares(parts_.layout, unit, gradient, parts_.ops(), parts_.stream,
                    static_cast<device::ExactSum*>(squares_));
  } else {
    SumOwnedSquares(parts_.layout, unit, gradient, parts_.ops(), parts_.stream, static_cast<double*>(squares_));
  }
}

absl::StatusOr<collective::Communicator::Pending> StepSums::Decide(const StepBatch& batch, uint64_t flags,
                                                                   const device::StepRule& rule,
                                                                   device::StepControl* control) {
  device::Ops& ops = parts_.ops();
  const int64_t loss_count = counts_loss() ? parts_.layout.CountedMicroBatches(batch) : 0;
  const double* const weights = parts_.layout.scripted() ? weights_ : nullptr;
  if (exact_) {
    ops.SumExactScalars(parts_.stream, {.losses = losses_,
                                        .weights = weights,
                                        .loss_count = loss_count,
                                        .squares = static_cast<device::ExactSum*>(squares_),
                                        .square_count = parts_.layout.counted_ranges(),
                                        .flags = flags,
                                        .mine = Mine<device::ExactScalars>()});
  } else {
    ops.SumScalars(parts_.stream, {.losses = losses_,
                                   .weights = weights,
                                   .loss_count = loss_count,
                                   .squares = static_cast<double*>(squares_),
                                   .square_count = parts_.layout.counted_ranges(),
                                   .flags = flags,
                                   .mine = Mine<device::StepScalars>()});
  }
  ZF_ASSIGN_OR_RETURN(collective::Communicator::Pending gathered, Gather());
  ZF_RETURN_IF_ERROR(gathered.MakeStreamWait(parts_.stream));
  void* const all = all_;
  if (exact_) {
    ops.DecideStep(parts_.stream, static_cast<device::ExactScalars*>(all), all_ranks(), rule, control);
  } else {
    ops.DecideStep(parts_.stream, static_cast<device::StepScalars*>(all), all_ranks(), rule, control);
  }
  return gathered;
}

absl::StatusOr<collective::Communicator::Pending> StepSums::Gather() {
  if (tensor_ == nullptr) {
    return parts_.communicator.AllGatherBytes(mine_, all_, scalars_bytes_, kScalarsUnit, parts_.stream.Record());
  }
  const int64_t group_bytes = parts_.layout.part().count * scalars_bytes_;
  std::byte* const of_group = all_ + parts_.communicator.rank() * group_bytes;
  ZF_RETURN_IF_ERROR(tensor_->AllGather(parts_.stream, of_group, scalars_bytes_, kScalarsUnit));
  return parts_.communicator.AllGatherBytes(nullptr, all_, group_bytes, kScalarsUnit, parts_.stream.Record());
}

template <typename Scalars>
absl::StatusOr<std::vector<Scalars>> StepSums::GatherFromHost(const Scalars& mine) {
  parts_.device.Copy(parts_.stream, mine_, &mine, sizeof mine);
  ZF_ASSIGN_OR_RETURN(const collective::Communicator::Pending gathered, Gather());
  ZF_RETURN_IF_ERROR(gathered.Wait());
  std::vector<Scalars> all(static_cast<size_t>(all_ranks()));
  parts_.device.Copy(parts_.stream, all.data(), all_, static_cast<int64_t>(all.size() * sizeof mine));
  ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
  return all;
}

absl::StatusOr<double> StepSums::SumLosses(std::span<const double> mine) {
  const int64_t count = counts_loss() ? static_cast<int64_t>(mine.size()) : 0;
  if (exact_) {
    ZF_ASSIGN_OR_RETURN(const std::vector<device::ExactScalars> all,
                        GatherFromHost(device::ExactSumOfScalars(mine.data(), nullptr, count, nullptr, 0, 0)));
    return device::SumOverRanks(all.data(), all_ranks()).loss_sum;
  }
  ZF_ASSIGN_OR_RETURN(const std::vector<device::StepScalars> all,
                      GatherFromHost(device::SumOfScalars(mine.data(), nullptr, count, nullptr, 0, 0)));
  return device::SumOverRanks(all.data(), all_ranks()).loss_sum;
}

absl::StatusOr<std::vector<double>> StepSums::GatherFromRanks(double mine) {
  std::vector<double> values;
  if (exact_) {
    device::ExactScalars scalars;
    scalars.loss_sum.Add(mine);
    ZF_ASSIGN_OR_RETURN(const std::vector<device::ExactScalars> all, GatherFromHost(scalars));
    for (const device::ExactScalars& one : all) values.push_back(one.loss_sum.Value());
    return values;
  }
  ZF_ASSIGN_OR_RETURN(const std::vector<device::StepScalars> all,
                      GatherFromHost(device::StepScalars{.loss_sum = mine}));
  for (const device::StepScalars& one : all) values.push_back(one.loss_sum);
  return values;
}

}  // namespace zerofleet::zero
