// A transformer over the rows of a family (rows.h): an embedding, equal blocks, and a head, which may be tied to the
// embedding. It knows units and their order, and no family.
//
// In a tensor group each of N ranks has 1/N of what lies between a norm and the next sum into the residual stream, and
// 1/N of the vocabulary (part.h, residual_stream.h). The forward sums over the group the output of each projection into
// the stream, and the embedding; the backward sums the gradients that leave a branch, and that of the logits' input. A
// block with two branches has two sums of M*C elements forward and two backward.
//
// The checkpointing policy decides what a block keeps for its backward (activations.h); a segment's inputs may be kept
// elsewhere (kept_inputs.h). Gradients of parameters are added to a unit's sums, or made in bands of rows
// (unit_gradient.h). With bands, the token embedding's gradient is made last, a slice of the vocabulary at a time: the
// head's share, for which the logits are computed again, then the lookup's.
#ifndef ZEROFLEET_WORKER_MODEL_TRANSFORMER_H_
#define ZEROFLEET_WORKER_MODEL_TRANSFORMER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/model/activations.h"
#include "worker/model/block.h"
#include "worker/model/kept_inputs.h"
#include "worker/model/layers/embedding.h"
#include "worker/model/layers/head.h"
#include "worker/model/model.h"
#include "worker/model/residual_stream.h"
#include "worker/model/rows.h"
#include "worker/model/scratch.h"

namespace zerofleet::model {

class Transformer : public Model {
 public:
  // The backward goes as far as unit `first_trained` (ModelSpec::FirstTrained).
  Transformer(const FamilyRows& rows, const v1::ModelConfig& config, int first_trained, const ModelRun& run,
              device::Device& device);

  void SetTensorGroup(TensorGroup* group) override;
  int64_t ActivationBytes() const override { return activations_.Bytes(); }
  int64_t HostActivationBytes() const override { return kept_inputs_.HostBytes(); }
  device::LinkTraffic link() const override { return kept_inputs_.link(); }
  double RecomputedFlopsPerToken() const override;
  int64_t ScratchBytes() const override;
  std::vector<memory::Piece> ActivationPieces() const override { return activations_.Pieces(units()); }
  std::vector<memory::Piece> ScratchPieces() const override;
  int64_t BandBytes() const override;
  int64_t CacheBytes(int64_t capacity) const override;
  absl::Status Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                     device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) override;
  absl::Status Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                        double* loss_sum) override;
  absl::Status Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                      device::Tensor logits) override;

 private:
  // A pass over one micro-batch, with the memory and the parameters it borrows.
  struct Run {
    Run(const Transformer& model, const MicroBatch& batch, ParameterSource& source, device::Stream& stream);
    Run(const Run&) = delete;

    const Scratch scratch;
    const GradientMemory gradients;
    const ActivationMemory activations;
    const Pass pass;
    ParameterSource& parameters;
  };

  // Units in the order of the forward.
  int embedding_unit() const { return 0; }
  int block_unit(int64_t layer) const { return static_cast<int>(layer) + 1; }
  int head_unit() const { return static_cast<int>(segments_.layers()) + 1; }
  int units() const { return head_unit() + 1; }
  // Units of blocks' adapters come behind the units of a pass.
  int adapter_unit(int64_t layer) const { return units() + static_cast<int>(layer); }
  bool has_adapters() const { return !block_.declared().adapter_tensors().empty(); }

  ScratchSizes SizesOfScratch() const;
  KeptInputs::Pass KeptPass(const Run& run) const;
  // Acquires a block's tensors, and its adapters'.
  absl::StatusOr<UnitPass> AcquireBlock(Run& run, int64_t layer, const std::string& name);
  void ReleaseBlock(Run& run, int64_t layer);

  // With `keep`, also keeps what a backward needs.
  absl::Status ForwardBlocks(Run& run, bool keep);
  absl::Status ForwardBlock(Run& run, int64_t layer);
  // Runs the head to the loss and, if `loss.backward`, through its backward. With a tied head, the embedding is not
  // released if its gradient is made in bands.
  absl::Status RunHead(Run& run, HeadLayer::Loss& loss);
  absl::Status HeadBackward(Run& run, UnitPass at, const HeadLayer::Loss& loss);
  // Returns the matrix that makes the logits: from `head`, the head's own tensors, or from the embedding, which it
  // acquires.
  absl::StatusOr<device::Tensor> AcquireOutput(Run& run, device::Tensor head);
  bool tied() const { return head_.output_at() < 0; }
  // Fetches the input of the segment that ends with block `last` and computes its blocks before `last` again; the
  // backward of `last` recomputes `last` itself.
  absl::Status RecomputeSegment(Run& run, int64_t last);
  absl::StatusOr<std::optional<UnitGradient>> BeginAdapters(Run& run, int64_t layer) const;
  absl::Status BlockBackward(Run& run, int64_t layer);
  absl::Status EmbeddingBackward(Run& run, const HeadLayer::Loss& loss);
  absl::Status EmbeddingInBands(Run& run, const HeadLayer::Loss& loss);

  const Sizes sizes_;
  const device::DType dtype_;
  device::Ops& ops_;
  const int64_t most_sequences_, most_time_;
  const Checkpointing checkpointing_;
  const device::LossTerms terms_;
  const int64_t first_layer_;  // the first block whose backward runs
  ResidualStream residual_;
  Declaration embedding_declared_, head_declared_;
  const EmbeddingLayer embedding_;
  const Block block_;
  const HeadLayer head_;
  const Segments segments_;
  KeptInputs kept_inputs_;
  const Activations activations_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_TRANSFORMER_H_
