// Ops that record which addresses they write and read; see allocation_trace.h.
#include "bench/allocation_trace.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <unordered_map>

#include "base/status.h"
#include "base/units.h"
#include "coordinator/partition.h"
#include "worker/device/dry/dry_device.h"
#include "worker/model/model.h"

namespace zerofleet::bench {
namespace {

using device::Tensor;

constexpr int64_t kPlaceAlignment = 64;

// One tensor's life, from op `first` to op `last`.
struct Life {
  int64_t bytes, first, last;
};

// Collects the lives of tensors: each lives from the op that overwrites its address to the last op that reads it before
// the next overwrite.
class Lives {
 public:
  void NextOp() { ++op_; }
  void Write(const void* address, int64_t bytes) {
    if (address == nullptr) return;
    at_[address] = lives_.size();
    lives_.push_back({bytes, op_, op_});
  }
  void Read(const void* address) {
    const auto found = at_.find(address);  // parameters and tokens are not traced
    if (found != at_.end()) lives_[found->second].last = op_;
  }

  size_t Begin(int64_t bytes) {
    lives_.push_back({bytes, op_, op_});
    return lives_.size() - 1;
  }
  void End(size_t life) { lives_[life].last = op_; }

  // Ends the lives of all tensors: nothing is kept from step to step.
  void Forget() { at_.clear(); }

  std::vector<AllocationEvent> Events() const {
    struct Event {
      int64_t op;
      bool ends;
      int64_t tensor;
    };
    std::vector<Event> events;
    for (size_t i = 0; i < lives_.size(); ++i) {
      events.push_back({lives_[i].first, false, static_cast<int64_t>(i)});
      events.push_back({lives_[i].last, true, static_cast<int64_t>(i)});
    }
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return a.op != b.op ? a.op < b.op : a.ends < b.ends;  // an op's results are allocated before its inputs are freed
    });
    std::vector<AllocationEvent> trace;
    trace.reserve(events.size());
    for (const Event& event : events) trace.push_back({event.tensor, event.ends ? 0 : lives_[event.tensor].bytes});
    return trace;
  }

 private:
  int64_t op_ = 0;
  std::vector<Life> lives_;
  std::unordered_map<const void*, size_t> at_;
};

int64_t Bytes(int64_t elements, Tensor tensor) { return elements * device::DTypeBytes(tensor.dtype); }

class TracingOps : public device::DryOps {
 public:
  explicit TracingOps(Lives& lives) : lives_(lives) {}

  void LinearForward(device::Stream&, const device::LinearForwardArguments& a) override {
    Op({a.x, a.residual});
    lives_.Write(a.y.data, Bytes(a.m * a.n, a.y));
  }
  void LinearGeluForward(device::Stream&, const device::LinearGeluForwardArguments& a) override {
    Op({a.x});
    lives_.Write(a.before.data, Bytes(a.m * a.n, a.before));
    lives_.Write(a.y.data, Bytes(a.m * a.n, a.y));
  }
  void LinearBackwardInput(device::Stream&, const device::LinearBackwardInputArguments& a) override {
    Op({a.dy});
    lives_.Write(a.dx.data, Bytes(a.m * a.k, a.dx));
  }
  void LinearBackwardInputGelu(device::Stream&, const device::LinearBackwardInputGeluArguments& a) override {
    Op({a.dy, a.before});
    lives_.Write(a.dbefore.data, Bytes(a.m * a.k, a.dbefore));
  }
  void LinearBackwardWeight(device::Stream&, const device::LinearBackwardWeightArguments& a) override {
    Op({a.dy, a.x});
  }
  void GeluForward(device::Stream&, int64_t count, Tensor x, Tensor y) override {
    Op({x});
    lives_.Write(y.data, Bytes(count, y));
  }
  void LayerNormForward(device::Stream&, const device::LayerNormForwardArguments& a) override {
    Op({a.x});
    lives_.Write(a.y.data, Bytes(a.m * a.c, a.y));
    for (const float* statistic : {a.mean, a.rstd}) lives_.Write(statistic, a.m * int64_t{sizeof(float)});
  }
  void LayerNormBackward(device::Stream&, const device::LayerNormBackwardArguments& a) override {
    Op({a.dy, a.x, a.dx});
    for (const float* statistic : {a.mean, a.rstd}) lives_.Read(statistic);
  }
  void AttentionForward(device::Stream&, const device::AttentionForwardArguments& a) override {
    const device::AttentionShape& shape = a.shape;
    Op({a.qkv});
    lives_.Write(a.out.data, Bytes(shape.batch * shape.time * shape.heads * shape.head_size, a.out));
    lives_.Write(a.logsumexp, shape.batch * shape.heads * shape.time * int64_t{sizeof(float)});
  }
  void AttentionBackward(device::Stream&, const device::AttentionBackwardArguments& a) override {
    const device::AttentionShape& shape = a.shape;
    Op({a.qkv, a.out, a.dout});
    lives_.Read(a.logsumexp);
    lives_.Write(a.dqkv.data, Bytes(3 * shape.batch * shape.time * shape.heads * shape.head_size, a.dqkv));
  }
  void EmbeddingForward(device::Stream&, const device::EmbeddingForwardArguments& a) override {
    Op({});
    lives_.Write(a.x.data, Bytes(a.batch * a.time * a.c, a.x));
  }
  void EmbeddingBackward(device::Stream&, const device::EmbeddingBackwardArguments& a) override { Op({a.dx}); }
  void CrossEntropy(device::Stream&, const device::CrossEntropyArguments& a) override {
    Op({a.x});
    lives_.Write(a.dx.data, Bytes(a.m * a.c, a.dx));
  }
  void Convert(device::Stream&, int64_t count, Tensor from, Tensor to) override {
    Op({from});
    lives_.Write(to.data, Bytes(count, to));
  }
  void Zero(device::Stream&, void* to, int64_t bytes) override {
    Op({});
    lives_.Write(to, bytes);
  }

 private:
  void Op(std::initializer_list<Tensor> inputs) {
    lives_.NextOp();
    for (const Tensor& input : inputs) lives_.Read(input.data);
  }

  Lives& lives_;
};

// A device whose ops record what they write and read.
class TracingDevice : public device::DryDevice {
 public:
  explicit TracingDevice(Lives& lives) : ops_(lives) {}
  device::Ops& ops() override { return ops_; }

 private:
  TracingOps ops_;
};

// Units of stage 3: gathered for each use; their gradients are whole until they are delivered, and shards from then on.
class SplitUnits : public model::ParameterSource {
 public:
  SplitUnits(const model::ModelSpec& spec, const TrainingShape& shape, Lives& lives)
      : partition_(spec.units(), shape.ranks), dtype_(shape.dtype), lives_(lives) {}

  absl::StatusOr<Tensor> Acquire(int unit) override {
    lives_.NextOp();
    gathered_[unit] = lives_.Begin(partition_.PaddedElements(unit) * device::DTypeBytes(dtype_));
    return Tensor{device::DryDevice::Address(), dtype_};
  }
  void Release(int unit) override { lives_.End(gathered_.at(unit)); }
  absl::StatusOr<float*> Gradient(int unit) override {
    if (!sums_.contains(unit)) sums_[unit] = lives_.Begin(partition_.PaddedElements(unit) * int64_t{sizeof(float)});
    return static_cast<float*>(device::DryDevice::Address());
  }
  absl::Status DeliverGradient(int unit) override {
    lives_.NextOp();
    resting_.push_back(lives_.Begin(partition_.ShardElements(unit) * device::DTypeBytes(dtype_)));
    lives_.End(sums_.at(unit));
    sums_.erase(unit);
    return absl::OkStatus();
  }
  void EndStep() {
    lives_.NextOp();
    for (const size_t part : resting_) lives_.End(part);
    resting_.clear();
  }

 private:
  const coordinator::PartitionMap partition_;
  const device::DType dtype_;
  Lives& lives_;
  std::unordered_map<int, size_t> gathered_, sums_;
  std::vector<size_t> resting_;
};

}  // namespace

absl::StatusOr<std::vector<AllocationEvent>> TraceTraining(const TrainingShape& shape) {
  Lives lives;
  TracingDevice device(lives);
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(shape.model));
  const int64_t longest = *std::max_element(shape.times.begin(), shape.times.end());
  ZF_ASSIGN_OR_RETURN(
      const std::unique_ptr<model::Model> model,
      model::Model::Create(shape.model, {shape.dtype, shape.sequences, longest, shape.checkpointing}, device));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  // Addresses are compared but never read. Those of activations are odd; those of parameters, in elements of two bytes,
  // are even.
  std::byte* const activations = static_cast<std::byte*>(device::DryDevice::Address()) + 1;
  model->SetMemory({.activations = activations, .scratch = activations + model->ActivationBytes()});
  const int32_t* const tokens = static_cast<int32_t*>(device::DryDevice::Address());
  SplitUnits units(spec, shape, lives);
  for (const int64_t time : shape.times) {
    const model::MicroBatch batch = {shape.sequences, time, tokens, tokens};
    ZF_RETURN_IF_ERROR(model->Train(batch, static_cast<float*>(device::DryDevice::Address()), units, *stream,
                                    static_cast<double*>(device::DryDevice::Address()), [] {}));
    units.EndStep();
    lives.Forget();
  }
  return lives.Events();
}

int64_t PeakBytes(const std::vector<AllocationEvent>& trace) {
  std::unordered_map<int64_t, int64_t> in_use;
  int64_t now = 0, peak = 0;
  for (const AllocationEvent& event : trace) {
    if (event.bytes > 0) {
      in_use[event.tensor] = event.bytes;
      peak = std::max(peak, now += event.bytes);
    } else {
      now -= in_use.at(event.tensor);
    }
  }
  return peak;
}

int64_t PlacedBytes(const std::vector<AllocationEvent>& trace) {
  struct Placed {
    int64_t bytes, begin, end;  // `begin` and `end` are numbers of events
    int64_t offset = 0;
  };
  std::unordered_map<int64_t, Placed> lives;
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto now = static_cast<int64_t>(i);
    if (trace[i].bytes > 0) {
      lives[trace[i].tensor] = {RoundUp(trace[i].bytes, kPlaceAlignment), now, now};
    } else {
      lives.at(trace[i].tensor).end = now;
    }
  }
  std::vector<Placed> tensors;
  for (const auto& [tensor, life] : lives) tensors.push_back(life);
  std::sort(tensors.begin(), tensors.end(), [](const Placed& a, const Placed& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin < b.begin;
  });
  std::vector<Placed> placed;  // sorted by offset
  int64_t arena = 0;
  for (Placed& tensor : tensors) {
    for (const Placed& other : placed) {
      if (other.begin > tensor.end || other.end < tensor.begin) continue;
      if (other.offset >= tensor.offset + tensor.bytes) break;
      tensor.offset = std::max(tensor.offset, other.offset + other.bytes);
    }
    const auto at = std::upper_bound(placed.begin(), placed.end(), tensor.offset,
                                     [](int64_t offset, const Placed& other) { return offset < other.offset; });
    placed.insert(at, tensor);
    arena = std::max(arena, tensor.offset + tensor.bytes);
  }
  return arena;
}

}  // namespace zerofleet::bench
