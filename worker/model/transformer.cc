// Passes, unit by unit; see transformer.h.
#include "worker/model/transformer.h"

#include <algorithm>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/device/band_ops.h"
#include "worker/model/unit_names.h"

namespace zerofleet::model {

Transformer::Transformer(const FamilyRows& rows, const v1::ModelConfig& config, int first_trained, const ModelRun& run,
                         device::Device& device)
    : sizes_(config),
      dtype_(run.dtype),
      ops_(device.ops()),
      most_sequences_(run.sequences),
      most_time_(run.time),
      checkpointing_(run.checkpointing),
      terms_(run.terms),
      // With offload every backward runs: each starts the copy of an earlier input from the host, and the next waits
      // for it.
      first_layer_(run.checkpointing.offload ? 0 : std::max(0, first_trained - 1)),
      residual_(sizes_.hidden, run.dtype, run.sharing),
      embedding_declared_(sizes_, run.sharing),
      head_declared_(sizes_, run.sharing),
      embedding_(rows.embedding, !rows.head.Tied(sizes_), embedding_declared_),
      block_(rows, sizes_, run.sharing),
      head_(rows.head, rows.Epsilon(sizes_), head_declared_),
      segments_(run.checkpointing, sizes_.layers),
      kept_inputs_(run.checkpointing, segments_.count(), residual_.Tokens(run.sequences * run.time) * sizes_.hidden,
                   run.dtype, residual_.divided() ? 1 : run.sharing.parts, device),
      activations_(block_.declared(), segments_, kept_inputs_, run.checkpointing.selective, run.sequences * run.time,
                   residual_.Tokens(run.sequences * run.time), run.dtype) {}

void Transformer::SetTensorGroup(TensorGroup* group) {
  residual_.SetTensorGroup(group);
  kept_inputs_.ForgetLink();
}

Transformer::Run::Run(const Transformer& model, const MicroBatch& batch, ParameterSource& source,
                      device::Stream& stream)
    : scratch([&] {
        Carver carver(model.memory_.scratch);
        return model.SizesOfScratch().Carve(carver, model.ops_);
      }()),
      gradients(model.ops_, stream, model.dtype_, model.BandBytes(), model.memory_.band, scratch.vector_sums),
      activations(model.activations_, model.memory_.activations),
      pass{model.ops_, batch, model.residual_, activations, scratch, gradients, stream},
      parameters(source) {
  ZF_CHECK(batch.sequences <= model.most_sequences_ && batch.time <= model.most_time_);
  if (batch.cache == nullptr) return;
  ZF_CHECK(batch.sequences == 1 && batch.cache->capacity <= model.most_time_);
  ZF_CHECK(batch.past() + batch.time <= batch.cache->capacity);
}

absl::Status Transformer::Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                                device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) {
  ZF_CHECK(batch.cache == nullptr);
  const absl::Cleanup joined = [&] { kept_inputs_.Join(stream); };
  Run run(*this, batch, parameters, stream);
  ZF_RETURN_IF_ERROR(ForwardBlocks(run, /*keep=*/true));
  on_backward();
  HeadLayer::Loss loss{gradient_scale, loss_sum, /*backward=*/true, parameters.TakesBands(), terms_};
  ZF_RETURN_IF_ERROR(RunHead(run, loss));
  for (int64_t layer = sizes_.layers - 1; layer >= first_layer_; --layer) {
    if (segments_.EndsRecomputed(layer)) ZF_RETURN_IF_ERROR(RecomputeSegment(run, layer));
    ZF_RETURN_IF_ERROR(BlockBackward(run, layer));
  }
  return EmbeddingBackward(run, loss);
}

absl::Status Transformer::Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                                   double* loss_sum) {
  Run run(*this, batch, parameters, stream);
  ZF_RETURN_IF_ERROR(ForwardBlocks(run, /*keep=*/false));
  HeadLayer::Loss loss{nullptr, loss_sum, /*backward=*/false, /*in_bands=*/false};
  return RunHead(run, loss);
}

absl::Status Transformer::Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                                 device::Tensor logits) {
  ZF_CHECK(batch.sequences == 1);
  ZF_CHECK(!residual_.in_parts());
  Run run(*this, batch, parameters, stream);
  ZF_RETURN_IF_ERROR(ForwardBlocks(run, /*keep=*/false));
  const std::string name = kHeadUnit;
  ZF_ASSIGN_OR_RETURN(const device::Tensor w, parameters.Acquire(head_unit()));
  const UnitPass at{run.pass, name, w};
  head_.NormaliseLast(at);
  ZF_ASSIGN_OR_RETURN(const device::Tensor output, AcquireOutput(run, w));
  head_.LastLogits(at, output, logits);
  if (tied()) parameters.Release(embedding_unit());
  parameters.Release(head_unit());
  return absl::OkStatus();
}

absl::Status Transformer::ForwardBlocks(Run& run, bool keep) {
  const std::string name = kEmbeddingUnit;
  ZF_ASSIGN_OR_RETURN(const device::Tensor w, run.parameters.Acquire(embedding_unit()));
  ZF_RETURN_IF_ERROR(embedding_.Forward({run.pass, name, w}, run.activations.Input(0)));
  run.parameters.Release(embedding_unit());
  for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
    if (keep && segments_.Begins(layer)) kept_inputs_.Keep(KeptPass(run), segments_.Of(layer));
    ZF_RETURN_IF_ERROR(ForwardBlock(run, layer));
  }
  return absl::OkStatus();
}

absl::StatusOr<UnitPass> Transformer::AcquireBlock(Run& run, int64_t layer, const std::string& name) {
  ZF_ASSIGN_OR_RETURN(const device::Tensor w, run.parameters.Acquire(block_unit(layer)));
  UnitPass at = {run.pass, name, w, layer, &block_.declared().middles()};
  if (has_adapters()) {
    ZF_ASSIGN_OR_RETURN(at.adapters, run.parameters.Acquire(adapter_unit(layer)));
  }
  return at;
}

void Transformer::ReleaseBlock(Run& run, int64_t layer) {
  if (has_adapters()) run.parameters.Release(adapter_unit(layer));
  run.parameters.Release(block_unit(layer));
}

absl::Status Transformer::ForwardBlock(Run& run, int64_t layer) {
  const std::string name = BlockUnit(layer);
  ZF_ASSIGN_OR_RETURN(const UnitPass at, AcquireBlock(run, layer, name));
  ZF_RETURN_IF_ERROR(block_.ForwardWithin(at));
  ZF_RETURN_IF_ERROR(block_.ForwardOutput(at));
  ReleaseBlock(run, layer);
  return absl::OkStatus();
}

absl::Status Transformer::RunHead(Run& run, HeadLayer::Loss& loss) {
  const std::string name = kHeadUnit;
  ZF_ASSIGN_OR_RETURN(const device::Tensor w, run.parameters.Acquire(head_unit()));
  const UnitPass at{run.pass, name, w};
  ZF_RETURN_IF_ERROR(head_.Forward(at, loss));
  ZF_ASSIGN_OR_RETURN(loss.output, AcquireOutput(run, w));
  const int output_unit = tied() ? embedding_unit() : head_unit();
  if (loss.backward && !loss.in_bands && run.parameters.Trains(output_unit)) {
    ZF_ASSIGN_OR_RETURN(float* const gradient, run.parameters.Gradient(output_unit));
    loss.doutput = gradient + (tied() ? embedding_.tokens_at() : head_.output_at());
  }
  ZF_RETURN_IF_ERROR(head_.ComputeLoss(at, loss));
  if (tied() && !loss.in_bands) run.parameters.Release(embedding_unit());
  if (loss.backward) return HeadBackward(run, at, loss);
  run.parameters.Release(head_unit());
  return absl::OkStatus();
}

absl::StatusOr<device::Tensor> Transformer::AcquireOutput(Run& run, device::Tensor head) {
  if (!tied()) return head.Offset(head_.output_at());
  ZF_ASSIGN_OR_RETURN(const device::Tensor embedding, run.parameters.Acquire(embedding_unit()));
  return embedding.Offset(embedding_.tokens_at());
}

absl::Status Transformer::HeadBackward(Run& run, UnitPass at, const HeadLayer::Loss& loss) {
  ZF_ASSIGN_OR_RETURN(std::optional<UnitGradient> dw, UnitGradient::Begin(head_unit(), run.parameters, run.gradients));
  at.dw = dw ? &*dw : nullptr;
  if (dw && !tied() && loss.in_bands) ZF_RETURN_IF_ERROR(head_.OutputInBands(at, loss));
  ZF_RETURN_IF_ERROR(head_.Backward(at));
  run.parameters.Release(head_unit());
  return dw ? dw->End() : absl::OkStatus();
}

absl::Status Transformer::RecomputeSegment(Run& run, int64_t last) {
  const int64_t first = last + 1 - segments_.length();
  ZF_RETURN_IF_ERROR(kept_inputs_.Fetch(KeptPass(run), segments_.Of(first), BlockUnit(first)));
  for (int64_t layer = first; layer < last; ++layer) {
    ZF_RETURN_IF_ERROR(ForwardBlock(run, layer));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<UnitGradient>> Transformer::BeginAdapters(Run& run, int64_t layer) const {
  if (!has_adapters()) return std::optional<UnitGradient>();
  ZF_CHECK(!run.parameters.TakesBands());
  return UnitGradient::Begin(adapter_unit(layer), run.parameters, run.gradients);
}

absl::Status Transformer::BlockBackward(Run& run, int64_t layer) {
  const std::string name = BlockUnit(layer);
  ZF_ASSIGN_OR_RETURN(UnitPass at, AcquireBlock(run, layer, name));
  ZF_ASSIGN_OR_RETURN(std::optional<UnitGradient> dw,
                      UnitGradient::BeginMadeOnce(block_unit(layer), run.parameters, run.gradients));
  at.dw = dw ? &*dw : nullptr;
  ZF_ASSIGN_OR_RETURN(std::optional<UnitGradient> dadapters, BeginAdapters(run, layer));
  at.dadapters = dadapters ? &*dadapters : nullptr;
  if (segments_.EndsRecomputed(layer)) ZF_RETURN_IF_ERROR(block_.ForwardWithin(at));
  ZF_RETURN_IF_ERROR(block_.Backward(at, checkpointing_.selective));
  ReleaseBlock(run, layer);
  if (dadapters) ZF_RETURN_IF_ERROR(dadapters->End());
  return dw ? dw->End() : absl::OkStatus();
}

// If the head is tied to the embedding, the embedding's sums already contain the head's gradient.
absl::Status Transformer::EmbeddingBackward(Run& run, const HeadLayer::Loss& loss) {
  if (loss.in_bands) return EmbeddingInBands(run, loss);
  const std::string name = kEmbeddingUnit;
  ZF_ASSIGN_OR_RETURN(std::optional<UnitGradient> dw,
                      UnitGradient::Begin(embedding_unit(), run.parameters, run.gradients));
  if (!dw) return absl::OkStatus();
  UnitPass at{run.pass, name, /*w=*/{}};
  at.dw = &*dw;
  ZF_RETURN_IF_ERROR(embedding_.Backward(at));
  return dw->End();
}

// Each row is summed in the same order as in one piece: first the head's gradient, then the lookup's.
absl::Status Transformer::EmbeddingInBands(Run& run, const HeadLayer::Loss& loss) {
  const std::string name = kEmbeddingUnit;
  ZF_ASSIGN_OR_RETURN(std::optional<UnitGradient> dw,
                      UnitGradient::Begin(embedding_unit(), run.parameters, run.gradients));
  if (!dw) {
    if (tied()) run.parameters.Release(embedding_unit());
    return absl::OkStatus();
  }
  UnitPass at{run.pass, name, /*w=*/{}};
  at.dw = &*dw;
  ZF_ASSIGN_OR_RETURN(const device::Tensor dx, run.pass.WholeGradient(name));
  AddToBand of_head;
  if (tied()) of_head = [&](const device::RowBand& rows, float* band) { head_.AddToBand(run.pass, loss, rows, band); };
  ZF_RETURN_IF_ERROR(embedding_.TokensInBands(at, dx, of_head));
  if (tied()) run.parameters.Release(embedding_unit());
  return embedding_.PositionsInBands(at, dx);
}

KeptInputs::Pass Transformer::KeptPass(const Run& run) const {
  return {run.activations.KeptInputsMemory(), memory_.host_activations, residual_.Tokens(run.pass.m()) * sizes_.hidden,
          residual_.group(), run.pass.stream};
}

}  // namespace zerofleet::model
