// The Llama family's ops (llama_ops.h).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/row_sums.h"

namespace zerofleet::device {

std::shared_ptr<const RotaryTable> RotaryTables::Of(std::span<const float> frequencies, int64_t positions) {
  absl::MutexLock lock(&mutex_);
  const size_t elements = frequencies.size() * static_cast<size_t>(positions);
  auto known = std::find_if(tables_.begin(), tables_.end(), [&](const std::shared_ptr<const RotaryTable>& table) {
    return std::equal(frequencies.begin(), frequencies.end(), table->frequencies.begin(), table->frequencies.end());
  });
  if (known != tables_.end() && (*known)->cosines.size() >= elements) return *known;
  auto table = std::make_shared<RotaryTable>();
  table->frequencies.assign(frequencies.begin(), frequencies.end());
  table->cosines.reserve(elements);
  table->sines.reserve(elements);
  for (int64_t position = 0; position < positions; ++position) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      table->cosines.push_back(std::cos(angle));
      table->sines.push_back(std::sin(angle));
    }
  }
  if (known == tables_.end()) known = tables_.insert(known, nullptr);
  return *known = table;
}

void CpuOps::RmsNormForward(Stream&, const RmsNormForwardArguments& p) {
  pool_.RunBlocks(p.m, RowBlock(p.c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels::RmsNormRow(p.c, p.epsilon, p.x.Offset(row * p.c), p.gamma, p.y.Offset(row * p.c), p.rstd + row);
    }
  });
}

void CpuOps::RmsNormBackward(Stream&, const RmsNormBackwardArguments& p) {
  SumOverRows(pool_, p.m, p.c, {&p.dgamma, 1}, [&](int64_t begin, int64_t end, float* partial) {
    const int64_t at = begin * p.c;
    kernels::RmsNormRowsGradient(end - begin, p.c, p.dy.Offset(at), p.x.Offset(at), p.gamma, p.rstd + begin,
                                 p.dx.Offset(at), partial);
  });
}

void CpuOps::Rotate(Stream&, const RotateArguments& p) {
  const std::shared_ptr<const RotaryTable> table = tables_.Of(p.frequencies, p.past + p.time);
  const int64_t half = p.head_size / 2;
  pool_.RunBlocks(p.batch * p.time, RowBlock(p.heads * p.head_size), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = (p.past + PositionOf(p, row)) * half;
      for (int64_t head = 0; head < p.heads; ++head) {
        kernels::RotateHead(half, table->cosines.data() + at, table->sines.data() + at, p.back,
                            p.x.Offset(row * p.columns + head * p.head_size));
      }
    }
  });
}

void CpuOps::HeadNormForward(Stream&, const HeadNormForwardArguments& p) {
  const int64_t normed = p.heads + p.kv_heads, columns = (normed + p.kv_heads) * p.head_size;
  pool_.RunBlocks(p.m, RowBlock(columns), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const Tensor x = p.x.Offset(token * columns), y = p.y.Offset(token * columns);
      for (int64_t head = 0; head < normed; ++head) {
        const int64_t at = head * p.head_size;
        kernels::RmsNormRow(p.head_size, p.epsilon, x.Offset(at), p.gammas.Offset(head < p.heads ? 0 : p.head_size),
                            y.Offset(at), p.rstd + head * p.m + token);
      }
      const int64_t values = normed * p.head_size;
      std::memcpy(y.Offset(values).data, x.Offset(values).data,
                  static_cast<size_t>(p.kv_heads * p.head_size * DTypeBytes(p.x.dtype)));
    }
  });
}

// Computes the gammas' gradient first, before dy is overwritten, head by head: so the order of its sum is heads, then
// tokens.
void CpuOps::HeadNormBackward(Stream&, const HeadNormBackwardArguments& p) {
  const int64_t normed = p.heads + p.kv_heads, columns = (normed + p.kv_heads) * p.head_size;
  for (int64_t head = 0; head < normed && p.dgammas != nullptr; ++head) {
    const int64_t at = head * p.head_size;
    float* const dgamma = p.dgammas + (head < p.heads ? 0 : p.head_size);
    SumOverRows(pool_, p.m, p.head_size, {&dgamma, 1}, [&](int64_t begin, int64_t end, float* partial) {
      const int64_t row = begin * columns + at;
      kernels::RmsNormColumns(end - begin, columns, p.head_size, p.dy.Offset(row), p.x.Offset(row),
                              p.rstd + head * p.m + begin, partial);
    });
  }
  const auto bytes = static_cast<size_t>(p.head_size * DTypeBytes(p.dy.dtype));
  pool_.RunBlocks(p.m, RowBlock(columns), [&](int64_t begin, int64_t end) {
    std::vector<std::byte> sums(bytes);
    std::vector<float> gamma_sums(static_cast<size_t>(p.head_size));  // discarded; see dgammas above
    const Tensor dx{sums.data(), p.dy.dtype};
    for (int64_t row = begin * normed; row < end * normed; ++row) {
      const int64_t token = row / normed, head = row % normed, at = token * columns + head * p.head_size;
      std::fill(sums.begin(), sums.end(), std::byte{0});
      kernels::RmsNormRowsGradient(1, p.head_size, p.dy.Offset(at), p.x.Offset(at),
                                   p.gammas.Offset(head < p.heads ? 0 : p.head_size), p.rstd + head * p.m + token, dx,
                                   gamma_sums.data());
      std::memcpy(p.dy.Offset(at).data, dx.data, bytes);
    }
  });
}

void CpuOps::GateForward(Stream&, const GateForwardArguments& p) {
  pool_.RunBlocks(p.m, RowBlock(p.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Tensor x = p.x.Offset(row * 2 * p.n);
      kernels::Gate(p.n, x, x.Offset(p.n), p.y.Offset(row * p.n));
    }
  });
}

void CpuOps::GateBackward(Stream&, const GateBackwardArguments& p) {
  pool_.RunBlocks(p.m, RowBlock(p.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Tensor x = p.x.Offset(row * 2 * p.n), dx = p.dx.Offset(row * 2 * p.n);
      kernels::GateGradient(p.n, x, x.Offset(p.n), p.dy.Offset(row * p.n), dx, dx.Offset(p.n));
    }
  });
}

}  // namespace zerofleet::device
