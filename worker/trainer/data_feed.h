// Which samples this rank trains and evaluates on, and their way into the device's token buffers.
//
// Step s consumes global positions [cursor + (s-first)*G, ...+G) of the endless order (worker/data/mixture.h), whatever
// the number of ranks, and skips those that the run leaves out (coordinator/skipped_samples.h). Rank r of a data group
// takes the r-th of N equal parts, its micro-batches one after another; or, in the order of samples, every N-th
// micro-batch from the r-th on (coordinator/batch_shares.h).
#ifndef ZEROFLEET_WORKER_TRAINER_DATA_FEED_H_
#define ZEROFLEET_WORKER_TRAINER_DATA_FEED_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/batch_schedule.h"
#include "coordinator/skipped_samples.h"
#include "worker/data/dataset.h"
#include "worker/data/mixture.h"
#include "worker/device/device.h"
#include "worker/model/model.h"
#include "worker/parallel/mesh.h"
#include "worker/zero/engine.h"
#include "worker/zero/memory_plan.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::trainer {

class DataFeed {
 public:
  // Opens the files that the configuration names. Validation may be absent. Errors begin with the key, such as
  // data.train[0]. `text` says how text is tokenized; its tokens are kept in checkpoint.dir, and made only if they are
  // not there yet.
  static absl::StatusOr<std::unique_ptr<DataFeed>> Open(const v1::Config& config, data::TextOptions text = {});

  const data::Dataset* training() const { return training_.get(); }
  const data::Dataset* validation() const { return validation_.get(); }  // may be null

  struct IdCheck {
    int64_t bytes = 0;  // bytes compared; 0 if all files have passed before or cannot have an id that is too large
    double seconds = 0;
  };
  // Compares every id of every sample with the vocabulary (Dataset::CheckIds). Files that pass are remembered in
  // checkpoint.dir, if it exists and is writable. May be called by any thread, before or after Attach.
  absl::StatusOr<IdCheck> CheckIds(int threads, const std::function<bool()>& cancelled) const;

  // The data files, as a checkpoint stores them.
  v1::DataFingerprint Fingerprint() const;
  // data::TextTokenizer::Makers; empty without text.
  const std::string& token_makers() const { return token_makers_; }
  // How the files for training differ from those of `before`; and the files for validation, which change no step, if
  // there were any then and are now.
  struct Changes {
    data::DataChange training, validation;
  };
  Changes ChangesSince(const v1::DataFingerprint& before) const;

  // Called before a view's first batch, with this rank's data group, device memory for data::ArraysPerToken() *
  // micro_sequences * context elements, and host memory from the device for kTokenStages times as many.
  void Attach(const parallel::Group& data, device::Device& device, device::Stream& stream, int32_t* tokens,
              int32_t* staging);
  // Sets the global position that the step after `step` starts at, and the samples that are left out from there on.
  void Seek(int64_t step, int64_t samples_consumed, coordinator::SkippedSamples skipped = {});
  int64_t SamplesConsumed(int64_t step) const { return skipped_.After(cursor_, SinceCursor(step)); }

  // Tokens of the step's global batch whose targets count, at least 1: the divisor of the loss, on every rank. 0 for a
  // foreign model, whose passes report it.
  int64_t CountedTokens(int64_t step) const;
  // The batch of the rank with this number in the data group: any rank can make any rank's. A rank that has none in
  // this round gets another rank's, which does not count.
  absl::StatusOr<model::MicroBatch> TrainingBatch(int64_t step, int number, int64_t micro_batch);

  // What a run has taken from each set by the end of `step`; empty if data.train is no mixture.
  std::vector<v1::SetShare> Shares(int64_t step) const;

  bool has_validation() const { return !validation_sets_.empty(); }
  // One set of data.validation, by its number in validation_sets().
  struct ValidationSet {
    std::string name;  // empty for a single set without a name
    int64_t first_sample, samples;
  };
  const std::vector<ValidationSet>& validation_sets() const { return validation_sets_; }
  // Evaluation visits the first evaluate.batches * G samples of a set, or all if there are fewer, split evenly over the
  // ranks; in the order of samples one micro-batch at a time, so that the samples of a micro-batch do not depend on the
  // number of ranks. Every rank makes the same number of passes; a rank without samples left repeats one that is not
  // counted.
  int64_t EvaluationPasses(int set = 0) const;
  int64_t EvaluationTokens(int set = 0) const;
  // Passes that cover every batch size that this rank has in an evaluation; the same passes on every rank.
  std::vector<int64_t> EvaluationShapes(int set = 0) const;
  absl::StatusOr<zero::EvaluationBatch> Evaluation(int64_t pass, int set = 0);

 private:
  // How many samples the steps after the cursor's take, up to `step`.
  int64_t SinceCursor(int64_t step) const { return coordinator::SequencesBetween(config_.batch(), cursor_step_, step); }
  explicit DataFeed(const v1::Config& config) : config_(config) {}
  void FindValidationSets();
  // OutOfRange where no token of the training data counts, or no token of a validation set that is evaluated.
  absl::Status CheckCounted() const;
  int64_t CountedForEvaluation(int set) const;
  // Whether some targets do not count.
  bool marks_targets() const { return config_.data().packing() || config_.data().loss_on() == "assistant"; }
  int64_t EvaluationSamples(int set) const;
  absl::StatusOr<model::MicroBatch> Fill(const data::Dataset& dataset, int64_t sequences,
                                         const std::function<int64_t(int64_t)>& sample);
  // A batch of a foreign model: the numbers of its samples, which Python has.
  model::MicroBatch Name(int64_t sequences, bool validation, uint64_t position,
                         const std::function<int64_t(int64_t)>& sample);

  const v1::Config config_;
  std::unique_ptr<data::Dataset> training_, validation_;
  std::string token_makers_;
  std::vector<ValidationSet> validation_sets_;
  std::vector<int64_t> named_;  // the samples of the batch that Name made last
  std::unique_ptr<data::Mixture> order_;
  int rank_ = 0, ranks_ = 1;  // in the data group
  device::Device* device_ = nullptr;
  device::Stream* stream_ = nullptr;
  int32_t* device_tokens_ = nullptr;
  // Used in rotation, so that one is filled while the other is being copied.
  struct Stage {
    int32_t* tokens = nullptr;
    std::shared_ptr<device::Event> copied;
  };
  std::array<Stage, zero::kTokenStages> stages_;
  int stage_ = 0;
  int64_t cursor_ = 0, cursor_step_ = 0;
  coordinator::SkippedSamples skipped_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_DATA_FEED_H_
