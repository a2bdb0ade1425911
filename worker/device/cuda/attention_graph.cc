// See attention_graph.h.
#include "worker/device/cuda/attention_graph.h"

#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int64_t kFullAlignment = 16, kF32Bytes = 4;

using Sides = std::array<int64_t, 4>;  // B, H, rows, columns

// The strides in elements of a dense tensor.
Sides DenseStrides(const Sides& sides) { return {sides[1] * sides[2] * sides[3], sides[2] * sides[3], sides[3], 1}; }

Sides Transposed(const Sides& sides) { return {sides[0], sides[1], sides[3], sides[2]}; }

// A node's input or output: its descriptor, and what later nodes need to know about it.
struct Value {
  const CudnnDescriptor* tensor;
  Sides sides, strides;
};

// Adds tensors and nodes in the order of the calls; the first failure sticks, and Finish returns it.
class GraphWriter {
 public:
  GraphWriter(const AttentionShape& part, int64_t row_heads, DType dtype)
      : part_(part), row_heads_(row_heads), storage_(dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF) {
    ZF_CHECK(dtype != DType::kF32);
    // Per-row numbers are dense, so a part may have fewer heads than a row only if it is of one sequence.
    ZF_CHECK(part.heads == row_heads || part.batch == 1);
  }

  cudnnDataType_t storage() const { return storage_; }
  // Views as (B,H,T,D): Packed of the packed qkv or dqkv, Plain of out or dout (B,T,C).
  Value Packed(AttentionTensor id) { return Bound(id, storage_, Rows(part_.head_size), HeadStrides(3)); }
  Value Plain(AttentionTensor id) { return Bound(id, storage_, Rows(part_.head_size), HeadStrides(1)); }
  // As Packed, seen as (B,H,D,T).
  Value PackedTransposed(AttentionTensor id) {
    return Bound(id, storage_, Transposed(Rows(part_.head_size)), Transposed(HeadStrides(3)));
  }
  // One fp32 number per query, dense.
  Value PerRow(AttentionTensor id) { return Bound(id, CUDNN_DATA_FLOAT, Rows(1), DenseStrides(Rows(1))); }
  // An fp32 number that the host passes at each run.
  Value Number(AttentionTensor id);

  Value Unary(cudnnPointwiseMode_t mode, const Value& x) {
    return Pointwise(mode, {&x}, Virtual(CUDNN_DATA_FLOAT, x.sides));
  }
  Value Binary(cudnnPointwiseMode_t mode, const Value& x, const Value& b) {
    return Pointwise(mode, {&x, &b}, Virtual(CUDNN_DATA_FLOAT, x.sides));
  }
  // Applies `mode` to x and b and writes the result, in storage type or fp32, into `to`.
  Value BinaryInto(cudnnPointwiseMode_t mode, const Value& x, const Value& b, const Value& to) {
    return Pointwise(mode, {&x, &b}, to);
  }
  // scores where the key is not after the query, minus infinity elsewhere.
  Value CausalMask(const Value& scores);
  // Reduces the last axis of x, to (.., 1).
  Value Reduce(cudnnReduceTensorOp_t op, const Value& x);
  Value Matmul(const Value& a, const Value& b) {
    return MatmulInto(a, b, Virtual(CUDNN_DATA_FLOAT, {a.sides[0], a.sides[1], a.sides[2], b.sides[3]}));
  }
  Value MatmulInto(const Value& a, const Value& b, const Value& to);
  // x with its last two axes swapped.
  Value Transpose(const Value& x, cudnnDataType_t type);

  Value Virtual(cudnnDataType_t type, const Sides& sides) { return Virtual(type, sides, DenseStrides(sides)); }

  absl::StatusOr<CudnnGraph> Finish(cudnnHandle_t handle);

 private:
  Sides Rows(int64_t columns) const { return {part_.batch, part_.heads, part_.time, columns}; }
  Sides HeadStrides(int64_t parts) const {
    const int64_t row = parts * row_heads_ * part_.head_size;
    return {part_.time * row, part_.head_size, row, 1};
  }

  Value Bound(AttentionTensor id, cudnnDataType_t type, const Sides& sides, const Sides& strides) {
    return Tensor(id, type, sides, strides, /*is_virtual=*/false, /*by_value=*/false);
  }
  Value Virtual(cudnnDataType_t type, const Sides& sides, const Sides& strides) {
    return Tensor(next_virtual_++, type, sides, strides, /*is_virtual=*/true, /*by_value=*/false);
  }
  Value Tensor(int64_t id, cudnnDataType_t type, const Sides& sides, const Sides& strides, bool is_virtual,
               bool by_value);
  Value Pointwise(cudnnPointwiseMode_t mode, const std::vector<const Value*>& inputs, const Value& to,
                  cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT, int64_t axis = -1);
  // The index of each query or key along `axis`.
  Value Index(const Value& like, int64_t axis);

  CudnnDescriptor& Part(cudnnBackendDescriptorType_t type, std::string_view what) {
    return graph_.parts.emplace_back(type, what);
  }
  void Keep(CudnnDescriptor& part) { status_.Update(part.Finalize()); }
  void KeepNode(CudnnDescriptor& node) {
    Keep(node);
    nodes_.push_back(node.get());
  }

  const AttentionShape part_;
  const int64_t row_heads_;
  const cudnnDataType_t storage_;
  int64_t next_virtual_ = kFirstVirtual;
  CudnnGraph graph_;
  std::vector<cudnnBackendDescriptor_t> nodes_;
  absl::Status status_;
};

Value GraphWriter::Tensor(int64_t id, cudnnDataType_t type, const Sides& sides, const Sides& strides, bool is_virtual,
                          bool by_value) {
  // Each tensor starts at a head, which has 8 elements or more, or at a head's fp32 numbers, one per row.
  const bool per_row = type == CUDNN_DATA_FLOAT && !is_virtual && !by_value;
  const int64_t alignment = by_value ? kF32Bytes : per_row ? RowsAlignment(part_.time) : kFullAlignment;
  CudnnDescriptor& tensor = Part(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "attention tensor");
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, sides)
      .Set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  Keep(tensor);
  return {&tensor, sides, strides};
}

Value GraphWriter::Number(AttentionTensor id) {
  return Tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, /*is_virtual=*/false, /*by_value=*/true);
}

Value GraphWriter::Pointwise(cudnnPointwiseMode_t mode, const std::vector<const Value*>& inputs, const Value& to,
                             cudnnDataType_t arithmetic, int64_t axis) {
  CudnnDescriptor& how = Part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "attention pointwise");
  how.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
      .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
  if (axis >= 0) how.Set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  Keep(how);
  constexpr std::array<cudnnBackendAttributeName_t, 3> kInputs = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  CudnnDescriptor& node = Part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "attention pointwise node");
  node.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  for (size_t i = 0; i < inputs.size(); ++i) node.Set(kInputs[i], *inputs[i]->tensor);
  node.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *to.tensor);
  KeepNode(node);
  return to;
}

Value GraphWriter::Index(const Value& like, int64_t axis) {
  return Pointwise(CUDNN_POINTWISE_GEN_INDEX, {&like}, Virtual(CUDNN_DATA_INT32, like.sides), CUDNN_DATA_INT32, axis);
}

Value GraphWriter::CausalMask(const Value& scores) {
  const Value query = Index(scores, 2), key = Index(scores, 3);
  const Value seen =
      Pointwise(CUDNN_POINTWISE_CMP_GE, {&query, &key}, Virtual(CUDNN_DATA_BOOLEAN, scores.sides), CUDNN_DATA_BOOLEAN);
  const Value hidden = Number(kMinusInfinity);
  return Pointwise(CUDNN_POINTWISE_BINARY_SELECT, {&scores, &hidden, &seen}, Virtual(CUDNN_DATA_FLOAT, scores.sides));
}

Value GraphWriter::Reduce(cudnnReduceTensorOp_t op, const Value& x) {
  const Value to = Virtual(CUDNN_DATA_FLOAT, {x.sides[0], x.sides[1], x.sides[2], 1});
  CudnnDescriptor& how = Part(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "attention reduction");
  how.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op)
      .Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  Keep(how);
  CudnnDescriptor& node = Part(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "attention reduction node");
  node.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.tensor)
      .Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *to.tensor)
      .Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  KeepNode(node);
  return to;
}

Value GraphWriter::MatmulInto(const Value& a, const Value& b, const Value& to) {
  CudnnDescriptor& how = Part(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "attention matmul");
  how.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  Keep(how);
  CudnnDescriptor& node = Part(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "attention matmul node");
  node.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.tensor)
      .Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.tensor)
      .Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *to.tensor)
      .Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  KeepNode(node);
  return to;
}

Value GraphWriter::Transpose(const Value& x, cudnnDataType_t type) {
  const Value to = Virtual(type, Transposed(x.sides), Transposed(x.strides));
  CudnnDescriptor& node = Part(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "attention reshape node");
  node.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.tensor).Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *to.tensor);
  KeepNode(node);
  return to;
}

absl::StatusOr<CudnnGraph> GraphWriter::Finish(cudnnHandle_t handle) {
  ZF_RETURN_IF_ERROR(status_);
  graph_.graph = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "attention graph");
  if (handle != nullptr) graph_.graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph_.graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(nodes_.size()),
                   nodes_.data());
  ZF_RETURN_IF_ERROR(graph_.graph.Finalize());
  return std::move(graph_);
}

}  // namespace

int64_t RowsAlignment(int64_t time) { return time * kF32Bytes % kFullAlignment == 0 ? kFullAlignment : kF32Bytes; }

absl::StatusOr<CudnnGraph> AttentionForwardGraph(cudnnHandle_t handle, const AttentionShape& part, int64_t row_heads,
                                                 DType dtype) {
  GraphWriter g(part, row_heads, dtype);
  const Value q = g.Packed(kQueries), k_transposed = g.PackedTransposed(kKeys), v = g.Packed(kValues);
  const Value scores = g.CausalMask(g.Binary(CUDNN_POINTWISE_MUL, g.Matmul(q, k_transposed), g.Number(kScale)));
  const Value maximum = g.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Value exponentials = g.Unary(CUDNN_POINTWISE_EXP, g.Binary(CUDNN_POINTWISE_SUB, scores, maximum));
  const Value sum = g.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials);
  g.BinaryInto(CUDNN_POINTWISE_ADD, maximum, g.Unary(CUDNN_POINTWISE_LOG, sum), g.PerRow(kLogsumexp));
  const Value p = g.BinaryInto(CUDNN_POINTWISE_DIV, exponentials, sum, g.Virtual(g.storage(), scores.sides));
  g.MatmulInto(p, v, g.Plain(kOut));
  return g.Finish(handle);
}

absl::StatusOr<CudnnGraph> AttentionBackwardGraph(cudnnHandle_t handle, const AttentionShape& part, int64_t row_heads,
                                                  DType dtype) {
  GraphWriter g(part, row_heads, dtype);
  const Value q = g.Packed(kQueries), k_transposed = g.PackedTransposed(kKeys);
  const Value v_transposed = g.PackedTransposed(kValues);
  const Value out = g.Plain(kOut), dout = g.Plain(kDout), scale = g.Number(kScale);
  const Value row_sums = g.Reduce(CUDNN_REDUCE_TENSOR_ADD, g.Binary(CUDNN_POINTWISE_MUL, dout, out));
  // The engines expect this multiplication by dropout's inverse scale, which is 1 without dropout.
  const Value delta = g.BinaryInto(CUDNN_POINTWISE_MUL, row_sums, g.Number(kOne), g.PerRow(kDelta));

  const Value scores = g.Binary(CUDNN_POINTWISE_MUL, g.Matmul(q, k_transposed), scale);
  const Value log_p = g.CausalMask(g.Binary(CUDNN_POINTWISE_SUB, scores, g.PerRow(kLogsumexp)));
  const Value p = g.Unary(CUDNN_POINTWISE_EXP, log_p);
  g.MatmulInto(g.Transpose(p, g.storage()), dout, g.Packed(kDvalues));

  const Value dp = g.Binary(CUDNN_POINTWISE_SUB, g.Matmul(dout, v_transposed), delta);
  const Value ds = g.Binary(CUDNN_POINTWISE_MUL, g.Binary(CUDNN_POINTWISE_MUL, dp, p), scale);
  g.MatmulInto(g.Transpose(ds, g.storage()), q, g.Packed(kDkeys));
  g.MatmulInto(ds, g.Transpose(k_transposed, CUDNN_DATA_FLOAT), g.Packed(kDqueries));
  return g.Finish(handle);
}

}  // namespace zerofleet::device::cuda
