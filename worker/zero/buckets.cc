// Filling, sending and draining of buckets; see buckets.h.
#include "worker/zero/buckets.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/collective/topology.h"

namespace zerofleet::zero {

GradientBuckets::GradientBuckets(const EngineParts& parts, PhaseMarks& marks, device::Tensor resting,
                                 std::function<absl::Status(int unit)> at_rest)
    : parts_(parts),
      layout_(parts.layout),
      marks_(marks),
      resting_(resting),
      at_rest_(std::move(at_rest)),
      micro_batches_(layout_.options().micro_batches),
      drained_(layout_.units()) {
  for (int i = 0; i < kBuckets; ++i) {
    Bucket& bucket = buckets_[i];
    bucket.wire = {parts_.device_arena.Take(BucketRow(i)), layout_.options().dtype};
    bucket.sums = bucket.wire;
    if (layout_.stages_buckets())
      bucket.sums = {parts_.device_arena.Take(BucketStagingRow(i)), layout_.gradient_dtype()};
  }
}

absl::Status GradientBuckets::Add(int unit, int64_t begin, int64_t count, device::Tensor values) {
  added_ += count;
  while (count > 0) {
    Bucket& bucket = buckets_[filling_];
    if (bucket.sent) ZF_RETURN_IF_ERROR(Drain(bucket));
    const int64_t taken = std::min(count, layout_.bucket_elements() - bucket.filled);
    parts_.ops().Convert(parts_.stream, taken, values, bucket.wire.Offset(bucket.filled));
    bucket.slices.push_back({unit, begin, taken, bucket.filled});
    bucket.filled += taken;
    begin += taken;
    count -= taken;
    values = values.Offset(taken);
    if (bucket.filled == layout_.bucket_elements()) Send(bucket);
  }
  if (added_ < layout_.partition().TrainedElements()) return absl::OkStatus();
  ZF_CHECK(added_ == layout_.partition().TrainedElements());
  added_ = 0;
  if (buckets_[filling_].filled > 0 && !buckets_[filling_].sent) Send(buckets_[filling_]);
  return absl::OkStatus();
}

void GradientBuckets::Send(Bucket& bucket) {
  const std::string &first = layout_.partition().unit(bucket.slices.front().unit).name,
                    &last = layout_.partition().unit(bucket.slices.back().unit).name;
  const std::string name = first == last ? first : absl::StrCat(first, " to ", last);
  const int64_t mine =
      collective::ShardRange(bucket.filled, parts_.communicator.size(), parts_.communicator.rank()).begin;
  bucket.micro_batch = micro_batch_;
  parts_.communicator.ReduceScatter(bucket.wire, bucket.sums.Offset(mine), bucket.filled, name, parts_.stream.Record());
  bucket.summed = parts_.communicator.AllGather({}, bucket.sums, bucket.filled, name);
  bucket.sent = true;
  filling_ = (filling_ + 1) % buckets_.size();
}

// The stream waits until the bucket's sums are there, and takes this rank's shards out of them.
absl::Status GradientBuckets::Drain(Bucket& bucket) {
  PhaseMarks::Within wait(marks_, StepPhase::kReduce);
  ZF_RETURN_IF_ERROR(bucket.summed.MakeStreamWait(parts_.stream));
  for (const Slice& slice : bucket.slices) {
    TakeOwned(bucket, slice);
    if (bucket.micro_batch + 1 < micro_batches_) continue;
    drained_[slice.unit] += slice.count;
    if (drained_[slice.unit] < layout_.partition().unit(slice.unit).elements()) continue;
    drained_[slice.unit] = 0;
    ZF_RETURN_IF_ERROR(at_rest_(slice.unit));
  }
  bucket.slices.clear();
  bucket.filled = 0;
  bucket.sent = false;
  return absl::OkStatus();
}

void GradientBuckets::TakeOwned(const Bucket& bucket, const Slice& slice) {
  const int64_t shard = layout_.partition().ShardElements(slice.unit), own = layout_.options().rank * shard;
  const int64_t begin = std::max(slice.begin, own), end = std::min(slice.begin + slice.count, own + shard);
  if (begin >= end) return;
  const device::Tensor from = bucket.sums.Offset(slice.at + begin - slice.begin);
  const device::Tensor to = resting_.Offset(layout_.TrainedShardOffset(slice.unit, /*split=*/true) + begin - own);
  if (bucket.micro_batch == 0) return parts_.ops().Convert(parts_.stream, end - begin, from, to);
  parts_.ops().Accumulate(parts_.stream, end - begin, from, static_cast<float*>(to.data));
}

// Drains the buckets in the order in which they were sent.
absl::Status GradientBuckets::Finish() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[(filling_ + i) % buckets_.size()];
    if (bucket.sent) ZF_RETURN_IF_ERROR(Drain(bucket));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
