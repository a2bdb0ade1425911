// Positions to samples to tokens; see data_feed.h.
#include "worker/trainer/data_feed.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "coordinator/batch_shares.h"

namespace zerofleet::trainer {
namespace {

constexpr char kCheckedFilesName[] = ".checked-data", kTokensName[] = ".tokens";

absl::StatusOr<std::unique_ptr<data::Dataset>> OpenFiles(const v1::Config& config, const std::string& key,
                                                         const google::protobuf::RepeatedPtrField<std::string>& paths,
                                                         data::TextTokenizer& text) {
  return data::Dataset::Open(config.data(), data::ConfiguredPaths(key, paths), config.model().context(),
                             config.model().vocab(), text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataFeed>> DataFeed::Open(const v1::Config& config, data::TextOptions text) {
  const std::string& dir = config.checkpoint().dir();
  if (!dir.empty()) text.directory = JoinPath(dir, kTokensName);
  data::TextTokenizer tokenizer(config.data(), std::move(text));
  std::unique_ptr<DataFeed> feed(new DataFeed(config));
  ZF_ASSIGN_OR_RETURN(feed->training_, OpenFiles(config, "data.train", config.data().train(), tokenizer));
  if (!config.data().validation().empty()) {
    ZF_ASSIGN_OR_RETURN(feed->validation_, OpenFiles(config, "data.validation", config.data().validation(), tokenizer));
  }
  feed->sampler_ = std::make_unique<data::Sampler>(config.seed(), feed->training_->samples());
  return feed;
}

absl::StatusOr<DataFeed::IdCheck> DataFeed::CheckIds(int threads, const std::function<bool()>& cancelled) const {
  const std::string& dir = config_.checkpoint().dir();
  data::CheckedFiles checked = data::CheckedFiles::Load(dir.empty() ? "" : JoinPath(dir, kCheckedFilesName));
  const double start = Clock::Real().MonotonicSeconds();
  IdCheck result;
  for (const data::Dataset* dataset : {training_.get(), validation_.get()}) {
    if (dataset == nullptr) continue;
    ZF_ASSIGN_OR_RETURN(const int64_t bytes, dataset->CheckIds(threads, checked, cancelled));
    result.bytes += bytes;
  }
  checked.Save();
  result.seconds = Clock::Real().MonotonicSeconds() - start;
  return result;
}

v1::DataFingerprint DataFeed::Fingerprint() const {
  v1::DataFingerprint fingerprint;
  *fingerprint.mutable_train() = training_->Files();
  if (validation_ != nullptr) *fingerprint.mutable_validation() = validation_->Files();
  return fingerprint;
}

DataFeed::Changes DataFeed::ChangesSince(const v1::DataFingerprint& before) const {
  Changes changes;
  changes.training = training_->ChangeSince("data.train", before.train());
  if (validation_ == nullptr || !before.has_validation()) return changes;
  changes.validation = validation_->ChangeSince("data.validation", before.validation());
  return changes;
}

void DataFeed::Attach(const parallel::Group& data, device::Device& device, device::Stream& stream, int32_t* tokens,
                      int32_t* staging) {
  rank_ = data.rank;
  ranks_ = data.size();
  device_ = &device;
  stream_ = &stream;
  device_tokens_ = tokens;
  for (int i = 0; i < zero::kTokenStages; ++i) {
    stages_[i] = {staging + i * 2 * config_.batch().micro_sequences() * config_.model().context(), nullptr};
  }
  stage_ = 0;
}

void DataFeed::Seek(int64_t step, int64_t samples_consumed, coordinator::SkippedSamples skipped) {
  cursor_step_ = step;
  cursor_ = samples_consumed;
  skipped_ = std::move(skipped);
}

absl::StatusOr<model::MicroBatch> DataFeed::TrainingBatch(int64_t step, int number, int64_t micro_batch) {
  int64_t sequences = config_.batch().micro_sequences();
  // Counted from the cursor.
  const int64_t step_begins = (step - 1 - cursor_step_) * config_.batch().global_sequences();
  const int64_t first = step_begins + FirstSequence(number, micro_batch);
  return Fill(*training_, sequences, [&](int64_t i) { return sampler_->Sample(skipped_.Place(cursor_, first + i)); });
}

int64_t DataFeed::FirstSequence(int number, int64_t micro_batch) const {
  const int64_t sequences = config_.batch().micro_sequences();
  if (coordinator::SumsInSampleOrder(config_)) {
    return (micro_batch * ranks_ + number) % coordinator::LeavesOf(config_) * sequences;
  }
  return number * (config_.batch().global_sequences() / ranks_) + micro_batch * sequences;
}

int64_t DataFeed::EvaluationSamples() const {
  return std::min(config_.evaluate().batches() * config_.batch().global_sequences(), validation_->samples());
}

int64_t DataFeed::EvaluationTokens() const { return EvaluationSamples() * config_.model().context(); }

int64_t DataFeed::EvaluationPasses() const {
  const int64_t sequences = config_.batch().micro_sequences();
  if (coordinator::SumsInSampleOrder(config_)) return CeilDivide(CeilDivide(EvaluationSamples(), sequences), ranks_);
  return CeilDivide(CeilDivide(EvaluationSamples(), ranks_), sequences);
}

std::vector<int64_t> DataFeed::EvaluationShapes() const {
  // Ranks differ by one sample at most, so that every pass but the last is full on each of them.
  const int64_t passes = EvaluationPasses();
  return passes == 1 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, passes - 1};
}

absl::StatusOr<zero::EvaluationBatch> DataFeed::Evaluation(int64_t pass) {
  const int64_t samples = EvaluationSamples(), sequences = config_.batch().micro_sequences();
  const bool dealt = coordinator::SumsInSampleOrder(config_);
  const int64_t begin = dealt ? (pass * ranks_ + rank_) * sequences : samples * rank_ / ranks_ + pass * sequences;
  const int64_t end = std::min(dealt ? samples : samples * (rank_ + 1) / ranks_, begin + sequences);
  bool counts = begin < end;
  ZF_ASSIGN_OR_RETURN(model::MicroBatch batch,
                      Fill(*validation_, counts ? end - begin : 1, [&](int64_t i) { return counts ? begin + i : 0; }));
  return zero::EvaluationBatch{batch, counts};
}

absl::StatusOr<model::MicroBatch> DataFeed::Fill(const data::Dataset& dataset, int64_t sequences,
                                                 const std::function<int64_t(int64_t)>& sample) {
  ZF_CHECK(device_ != nullptr);
  int64_t context = config_.model().context(), tokens = sequences * context;
  Stage& stage = stages_[stage_];
  stage_ = (stage_ + 1) % zero::kTokenStages;
  if (stage.copied != nullptr) ZF_RETURN_IF_ERROR(stage.copied->Wait());
  ZF_RETURN_IF_ERROR(dataset.ReadBatch(sequences, sample, stage.tokens));
  device_->Copy(*stream_, device_tokens_, stage.tokens, 2 * tokens * static_cast<int64_t>(sizeof(int32_t)));
  stage.copied = stream_->Record();
  return model::MicroBatch{sequences, context, device_tokens_, device_tokens_ + tokens};
}

}  // namespace zerofleet::trainer
