// Ops on flat vectors (ops.h), such as ZeRO's shards.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/units.h"
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kMostPartials = 256;  // partial sums of squares, one per block

// Calls update(at, count, decay) for every block of every segment, unless the step is skipped. The threads synchronize
// once, however many segments there are.
template <typename Update>
void UpdateSegments(ThreadPool& pool, std::span<const DecaySegment> segments, const StepControl& control,
                    const Update& update) {
  if (control.apply == 0) return;
  int64_t blocks = 0;
  for (const DecaySegment& segment : segments) blocks += CeilDivide(segment.count, kElementBlock);
  pool.Run(blocks, [&](int64_t block, int) {
    auto segment = segments.begin();
    for (; block >= CeilDivide(segment->count, kElementBlock); ++segment) {
      block -= CeilDivide(segment->count, kElementBlock);
    }
    const int64_t begin = block * kElementBlock;
    update(segment->offset + begin, std::min(kElementBlock, segment->count - begin), segment->decay);
  });
}

}  // namespace

void CpuOps::Convert(Stream&, int64_t count, Tensor from, Tensor to) {
  if (from.data == to.data) {
    // In place, a later block's results would overwrite an earlier block's inputs, so one thread converts front to
    // back.
    if (from.dtype != to.dtype) kernels::Convert(count, from, to);
    return;
  }
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Convert(end - begin, from.Offset(begin), to.Offset(begin));
  });
}

void CpuOps::Accumulate(Stream&, int64_t count, Tensor from, float* accumulator) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Accumulate(end - begin, from.Offset(begin), accumulator + begin);
  });
}

void CpuOps::SumSquares(Stream&, int64_t count, Tensor x, double* sum) {
  const int64_t block = std::max(kElementBlock, RoundUp(CeilDivide(count, kMostPartials), 16));
  std::array<double, kMostPartials> partials;
  pool_.RunBlocks(count, block, [&](int64_t begin, int64_t end) {
    partials[begin / block] = kernels::SumSquares(end - begin, x.Offset(begin));
  });
  double total = 0;
  for (int64_t i = 0; i < CeilDivide(count, block); ++i) total += partials[i];
  *sum = total;
}

void CpuOps::SumSquaresExactly(Stream&, int64_t count, const float* x, int64_t place, ExactSum* sum) {
  static_assert(kElementBlock % kSquaresTogether == 0);
  ZF_CHECK(count / kSquaresTogether < ExactSum::kMostAdded);
  *sum = {};
  // The rest of the block in which x begins; the other blocks are shared among the threads.
  const int64_t first = std::min(count, RoundUp(place, kSquaresTogether) - place);
  sum->Add(BlockOfSquares(x, first));
  sum->Normalize();
  absl::Mutex mutex;
  pool_.RunBlocks(count - first, kElementBlock, [&](int64_t begin, int64_t end) {
    ExactSum part;
    for (int64_t i = first + begin; i < first + end; i += kSquaresTogether) {
      part.Add(BlockOfSquares(x + i, std::min(kSquaresTogether, first + end - i)));
    }
    part.Normalize();
    const absl::MutexLock lock(&mutex);
    sum->Add(part);
  });
}

void CpuOps::Zero(Stream&, void* data, int64_t bytes) {
  pool_.RunBlocks(bytes, kElementBlock * 4, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<std::byte*>(data) + begin, 0, static_cast<size_t>(end - begin));
  });
}

void CpuOps::Fill(Stream&, int64_t count, float value, float* to) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, value); });
}

void CpuOps::AdamW(Stream&, const AdamWArguments& p) {
  UpdateSegments(pool_, p.segments, *p.control, [&](int64_t at, int64_t count, bool decay) {
    kernels::AdamW(count, p.control->factors, decay, p.gradient.Offset(at), p.master + at, p.exp_avg + at,
                   p.exp_avg_sq + at, p.parameter.Offset(at));
  });
}

void CpuOps::Sgd(Stream&, const SgdArguments& p) {
  UpdateSegments(pool_, p.segments, *p.control, [&](int64_t at, int64_t count, bool decay) {
    kernels::Sgd(count, p.control->factors, decay, p.gradient.Offset(at), p.master + at, p.momentum + at,
                 p.parameter.Offset(at));
  });
}

void CpuOps::MuonDirection(Stream&, const MuonDirectionArguments& p) {
  if (p.control->apply == 0) return;
  pool_.RunBlocks(p.count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::MuonDirection(end - begin, p.control->factors, p.ahead, p.gradient.Offset(begin), p.momentum + begin,
                           p.to.Offset(begin));
  });
}

void CpuOps::MuonMove(Stream&, const MuonMoveArguments& p) {
  if (p.control->apply == 0) return;
  const float decay = p.decays ? p.control->factors.decay : 1.0f;
  pool_.RunBlocks(p.count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::MuonMove(end - begin, decay, p.scale, p.direction + begin, p.from + begin, p.to.Offset(begin));
  });
}

void CpuOps::DivideByNorm(Stream&, int64_t count, const double* squares, double least, float* x) {
  const float factor = static_cast<float>(1 / std::max(std::sqrt(*squares), least));
  pool_.RunBlocks(count, kElementBlock,
                  [&](int64_t begin, int64_t end) { kernels::Scale(end - begin, factor, x + begin); });
}

void CpuOps::Assign(Stream& stream, const AssignArguments& p) {
  if (p.control->apply != 0) Convert(stream, p.count, p.from, {p.to, DType::kF32});
}

void CpuOps::Average(Stream&, const AverageArguments& p) {
  if (p.control->apply == 0) return;
  pool_.RunBlocks(p.count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Average(end - begin, p.control->factors.average_share, p.weights + begin, p.average + begin);
  });
}

}  // namespace zerofleet::device
