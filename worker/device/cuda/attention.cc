// Causal self-attention (ops.h): cuDNN's fused kernels where they support the shape, else the tiled ones. Heads that
// share keys and values are fused as well, on copies (attention_groups.h). Sequences of several documents are always
// the tiled kernels': the graphs for cuDNN (attention_graph.h) know of none.
//
// Which of them runs follows from shape, type, machine and whether there are documents, never from timing, so every run
// gives the same bits. Both keep the same logsumexp, so forward and backward may use different kernels: cuDNN's
// backward supports fewer shapes than its forward.
#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/device/cuda/attention_cudnn.h"
#include "worker/device/cuda/attention_groups.h"
#include "worker/device/cuda/attention_tiled.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/cuda_stream.h"

namespace zerofleet::device::cuda {

namespace {

constexpr char kForward[] = "AttentionForward", kBackward[] = "AttentionBackward";
// The scratch for copies of shared keys and values holds whole sequences: as many as fit in this, or one.
constexpr int64_t kCopiesBytes = int64_t{256} << 20, kAlignBytes = 256;

int64_t DeltaBytes(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.time * static_cast<int64_t>(sizeof(float));
}

int64_t SequencesTogether(const AttentionShape& shape) {
  const int64_t bytes = shape.time * WithoutGroups(shape).columns() * DTypeBytes(DType::kBF16);
  return std::clamp<int64_t>(kCopiesBytes / bytes, 1, shape.batch);
}

// Queries, keys and values with copies of those that are shared, and their gradient, in the scratch behind the sums.
struct Copies {
  Tensor qkv, dqkv;

  static int64_t At(const AttentionShape& shape) { return RoundUp(DeltaBytes(shape), kAlignBytes); }
  static int64_t Bytes(const AttentionShape& shape) {
    const int64_t tokens = SequencesTogether(shape) * shape.time;
    return RoundUp(tokens * WithoutGroups(shape).columns() * DTypeBytes(DType::kBF16), kAlignBytes);
  }
  Copies(const AttentionShape& shape, void* scratch, DType dtype)
      : qkv{static_cast<std::byte*>(scratch) + At(shape), dtype},
        dqkv{static_cast<std::byte*>(scratch) + At(shape) + Bytes(shape), dtype} {}
};

// Where the sequence `first` begins in qkv and dqkv, in out and dout, and in logsumexp, in elements.
struct Places {
  int64_t qkv, out, row;

  Places(const AttentionShape& s, int64_t first)
      : qkv(first * s.time * s.columns()), out(first * s.time * s.heads * s.head_size), row(first * s.heads * s.time) {}
};

// Calls `each` with pieces of the batch whose copies fit, and the first sequence of each.
template <typename Each>
void ForEachPiece(const AttentionShape& whole, Each each) {
  const int64_t together = SequencesTogether(whole);
  for (int64_t first = 0; first < whole.batch; first += together) {
    AttentionShape piece = whole;
    piece.batch = std::min(together, whole.batch - first);
    each(piece, first);
  }
}

}  // namespace

// A full GPU is a failure of the stream, and no reason for the tiled kernels: another rank, or the next run, might have
// the memory and compute other bits.
bool CudaOps::UsesFusedAttention(Stream& stream, const char* op, const AttentionShape& shape, DType dtype,
                                 bool documents) {
  absl::Status support = absl::UnimplementedError(fused_attention_refusal_);
  const auto ask = [&](const AttentionShape& piece, int64_t) {
    if (!support.ok()) return;
    const AttentionShape asked = WithoutGroups(piece);
    support = op == kForward ? fused_attention_->ForwardSupport(asked, dtype)
                             : fused_attention_->BackwardSupport(asked, dtype);
  };
  if (documents) {
    support = absl::UnimplementedError("cuDNN's kernels are not used for documents within a sequence (data.packing)");
  } else if (fused_attention_ != nullptr) {
    support = absl::OkStatus();
    shape.kv_heads == shape.heads ? ask(shape, 0) : ForEachPiece(shape, ask);
  }
  if (support.ok()) return true;
  if (absl::IsResourceExhausted(support)) static_cast<CudaStream&>(stream).Keep(Annotate(support, op));
  refused_shapes_.Note({op,
                        absl::StrCat(DTypeName(dtype), ", ", shape.batch, " x ", shape.heads, " heads x ", shape.time,
                                     " x ", shape.head_size),
                        std::string(support.message())});
  return false;
}

void CudaOps::AttentionForward(Stream& stream, const AttentionForwardArguments& p) {
  if (!UsesFusedAttention(stream, kForward, p.shape, p.qkv.dtype, p.starts != nullptr)) {
    return TiledAttentionForward(stream, p.shape, p.qkv, p.out, p.logsumexp, p.starts);
  }
  if (p.shape.kv_heads == p.shape.heads) {
    return fused_attention_->Forward(stream, p.shape, p.qkv, p.out, p.logsumexp);
  }
  ForEachPiece(p.shape, [&](const AttentionShape& piece, int64_t first) {
    const Places at(piece, first);
    const Tensor copied = Copies(p.shape, p.scratch, p.qkv.dtype).qkv;
    CopyGroups(stream, kForward, piece, p.qkv.Offset(at.qkv), copied);
    fused_attention_->Forward(stream, WithoutGroups(piece), copied, p.out.Offset(at.out), p.logsumexp + at.row);
  });
}

void CudaOps::AttentionBackward(Stream& stream, const AttentionBackwardArguments& p) {
  float* const delta = static_cast<float*>(p.scratch);
  if (!UsesFusedAttention(stream, kBackward, p.shape, p.qkv.dtype, p.starts != nullptr)) {
    return TiledAttentionBackward(stream, p.shape, p.qkv, p.out, p.logsumexp, p.dout, p.dqkv, delta, p.starts);
  }
  if (p.shape.kv_heads == p.shape.heads) {
    return fused_attention_->Backward(stream, p.shape, p.qkv, p.out, p.logsumexp, p.dout, p.dqkv, delta);
  }
  ForEachPiece(p.shape, [&](const AttentionShape& piece, int64_t first) {
    const Places at(piece, first);
    const Copies copies(p.shape, p.scratch, p.qkv.dtype);
    CopyGroups(stream, kBackward, piece, p.qkv.Offset(at.qkv), copies.qkv);
    fused_attention_->Backward(stream, WithoutGroups(piece), copies.qkv, p.out.Offset(at.out), p.logsumexp + at.row,
                               p.dout.Offset(at.out), copies.dqkv, delta);
    SumGroups(stream, kBackward, piece, copies.dqkv, p.dqkv.Offset(at.qkv));
  });
}

// Room for the backward's sums of dout * out, one per query, and, where keys and values are shared, for copies.
int64_t CudaOps::AttentionScratchBytes(const AttentionShape& shape) const {
  if (shape.kv_heads == shape.heads) return DeltaBytes(shape);
  return Copies::At(shape) + 2 * Copies::Bytes(shape);
}

}  // namespace zerofleet::device::cuda
