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
#include "worker/model/foreign.h"

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
  if (model::IsForeign(config.model())) {
    const int64_t samples = config.data().samples(), held = config.data().validation_samples();
    if (samples < 1) return absl::InvalidArgumentError("data.samples: the dataset of model.torch has none");
    std::unique_ptr<DataFeed> named(new DataFeed(config));
    named->order_ =
        std::make_unique<data::Mixture>(config.seed(), std::vector<int64_t>{samples}, std::vector<int64_t>());
    if (held > 0) named->validation_sets_.push_back({"", 0, held});
    return named;
  }
  const std::string& dir = config.checkpoint().dir();
  if (!dir.empty()) text.directory = JoinPath(dir, kTokensName);
  data::TextTokenizer tokenizer(config.data(), std::move(text));
  std::unique_ptr<DataFeed> feed(new DataFeed(config));
  ZF_ASSIGN_OR_RETURN(feed->training_, OpenFiles(config, "data.train", config.data().train(), tokenizer));
  if (!config.data().validation().empty()) {
    ZF_ASSIGN_OR_RETURN(feed->validation_, OpenFiles(config, "data.validation", config.data().validation(), tokenizer));
    feed->FindValidationSets();
  }
  const auto& weights = config.data().train_weights();
  feed->order_ = std::make_unique<data::Mixture>(config.seed(), feed->training_->samples_by_path(),
                                                 std::vector<int64_t>(weights.begin(), weights.end()));
  ZF_RETURN_IF_ERROR(feed->CheckCounted());
  feed->token_makers_ = tokenizer.Makers();
  return feed;
}

absl::Status DataFeed::CheckCounted() const {
  if (!marks_targets()) return absl::OkStatus();
  const auto none = [](const std::string& key, const std::string& what) {
    return absl::OutOfRangeError(
        absl::StrCat(key, ": no token of ", what, " counts in the loss (data.loss_on, data.packing)"));
  };
  int64_t sample = 0;
  while (sample < training_->samples() && training_->Counted(sample) == 0) ++sample;
  if (sample == training_->samples()) return none("data.train", "its samples");
  for (int set = 0; set < std::ssize(validation_sets_); ++set) {
    if (CountedForEvaluation(set) > 0) continue;
    const std::string& name = validation_sets_[set].name;
    return none(name.empty() ? "data.validation" : absl::StrCat("data.validation.", name),
                absl::StrCat("the ", EvaluationSamples(set), " samples that are evaluated"));
  }
  return absl::OkStatus();
}

void DataFeed::FindValidationSets() {
  const auto& names = config_.data().validation_sets();
  if (names.empty()) {
    validation_sets_.push_back({"", 0, validation_->samples()});
    return;
  }
  int64_t first = 0;
  for (int i = 0; i < names.size(); ++i) {
    const int64_t samples = validation_->samples_by_path()[i];
    if (i == 0 || names[i] != names[i - 1]) validation_sets_.push_back({names[i], first, 0});
    validation_sets_.back().samples += samples;
    first += samples;
  }
}

std::vector<v1::SetShare> DataFeed::Shares(int64_t step) const {
  std::vector<v1::SetShare> shares;
  if (order_->sets() < 2) return shares;
  std::vector<int64_t> taken = order_->Counts(SamplesConsumed(step));
  for (const v1::SampleRange& left_out : skipped_.ranges()) {
    const int64_t end = std::min(left_out.end(), SamplesConsumed(step));
    if (end <= left_out.begin()) continue;
    const std::vector<int64_t> until = order_->Counts(end), from = order_->Counts(left_out.begin());
    for (size_t d = 0; d < taken.size(); ++d) taken[d] -= until[d] - from[d];
  }
  for (int d = 0; d < order_->sets(); ++d) {
    v1::SetShare& share = shares.emplace_back();
    share.set_path(config_.data().train(d));
    share.set_weight(order_->weight(d));
    share.set_samples(taken[d]);
    share.set_epochs(static_cast<double>(taken[d]) / static_cast<double>(order_->samples(d)));
  }
  return shares;
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
  if (training_ == nullptr) return fingerprint;
  *fingerprint.mutable_train() = training_->Files();
  if (validation_ != nullptr) *fingerprint.mutable_validation() = validation_->Files();
  return fingerprint;
}

DataFeed::Changes DataFeed::ChangesSince(const v1::DataFingerprint& before) const {
  Changes changes;
  if (training_ == nullptr) return changes;
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
    stages_[i] = {staging + i * data::ArraysPerToken(config_.data()) * config_.batch().micro_sequences() *
                                config_.model().context(),
                  nullptr};
  }
  stage_ = 0;
}

void DataFeed::Seek(int64_t step, int64_t samples_consumed, coordinator::SkippedSamples skipped) {
  cursor_step_ = step;
  cursor_ = samples_consumed;
  skipped_ = std::move(skipped);
}

int64_t DataFeed::CountedTokens(int64_t step) const {
  const int64_t sequences = coordinator::SequencesOf(config_.batch(), step);
  if (training_ == nullptr) return 0;
  if (!marks_targets()) return sequences * config_.model().context();
  const int64_t first = SinceCursor(step - 1);
  int64_t counted = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    counted += training_->Counted(order_->Sample(skipped_.Place(cursor_, first + i)));
  }
  return std::max<int64_t>(1, counted);
}

absl::StatusOr<model::MicroBatch> DataFeed::TrainingBatch(int64_t step, int number, int64_t micro_batch) {
  int64_t sequences = config_.batch().micro_sequences();
  // The micro-batch's first sequence, counted from the cursor.
  const int64_t first =
      SinceCursor(step - 1) + coordinator::FirstSequenceOf(config_, ranks_, number, micro_batch,
                                                           coordinator::SequencesOf(config_.batch(), step));
  const auto sample = [&](int64_t i) { return order_->Sample(skipped_.Place(cursor_, first + i)); };
  if (training_ == nullptr) {
    return Name(sequences, /*validation=*/false, static_cast<uint64_t>(skipped_.Place(cursor_, first)), sample);
  }
  return Fill(*training_, sequences, sample);
}

int64_t DataFeed::EvaluationSamples(int set) const {
  return std::min(config_.evaluate().batches() * config_.batch().global_sequences(), validation_sets_[set].samples);
}

int64_t DataFeed::EvaluationTokens(int set) const {
  return marks_targets() ? CountedForEvaluation(set) : EvaluationSamples(set) * config_.model().context();
}

int64_t DataFeed::CountedForEvaluation(int set) const {
  int64_t counted = 0;
  for (int64_t i = 0; i < EvaluationSamples(set); ++i) {
    counted += validation_->Counted(validation_sets_[set].first_sample + i);
  }
  return counted;
}

int64_t DataFeed::EvaluationPasses(int set) const {
  const int64_t samples = EvaluationSamples(set), sequences = config_.batch().micro_sequences();
  if (coordinator::SumsInSampleOrder(config_)) return CeilDivide(CeilDivide(samples, sequences), ranks_);
  return CeilDivide(CeilDivide(samples, ranks_), sequences);
}

std::vector<int64_t> DataFeed::EvaluationShapes(int set) const {
  // Ranks differ by one sample at most, so every pass except the last is full on each rank.
  const int64_t passes = EvaluationPasses(set);
  return passes == 1 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, passes - 1};
}

absl::StatusOr<zero::EvaluationBatch> DataFeed::Evaluation(int64_t pass, int set) {
  const int64_t samples = EvaluationSamples(set), first = validation_sets_[set].first_sample;
  const int64_t sequences = config_.batch().micro_sequences();
  const bool dealt = coordinator::SumsInSampleOrder(config_);
  const int64_t begin = dealt ? (pass * ranks_ + rank_) * sequences : samples * rank_ / ranks_ + pass * sequences;
  const int64_t end = std::min(dealt ? samples : samples * (rank_ + 1) / ranks_, begin + sequences);
  const bool counts = begin < end;
  const auto sample = [&](int64_t i) { return first + (counts ? begin + i : 0); };
  if (training_ == nullptr) {
    const auto position = static_cast<uint64_t>(sample(0));
    return zero::EvaluationBatch{Name(counts ? end - begin : 1, /*validation=*/true, position, sample), counts};
  }
  ZF_ASSIGN_OR_RETURN(model::MicroBatch batch, Fill(*validation_, counts ? end - begin : 1, sample));
  return zero::EvaluationBatch{batch, counts};
}

model::MicroBatch DataFeed::Name(int64_t sequences, bool validation, uint64_t position,
                                 const std::function<int64_t(int64_t)>& sample) {
  named_.clear();
  for (int64_t i = 0; i < sequences; ++i) named_.push_back(sample(i));
  model::MicroBatch batch{sequences, config_.model().context(), nullptr, nullptr};
  batch.samples = named_;
  batch.validation = validation;
  batch.position = position;
  return batch;
}

absl::StatusOr<model::MicroBatch> DataFeed::Fill(const data::Dataset& dataset, int64_t sequences,
                                                 const std::function<int64_t(int64_t)>& sample) {
  ZF_CHECK(device_ != nullptr);
  int64_t context = config_.model().context(), tokens = sequences * context;
  Stage& stage = stages_[stage_];
  stage_ = (stage_ + 1) % zero::kTokenStages;
  if (stage.copied != nullptr) ZF_RETURN_IF_ERROR(stage.copied->Wait());
  ZF_RETURN_IF_ERROR(dataset.ReadBatch(sequences, sample, stage.tokens));
  const int arrays = data::ArraysPerToken(config_.data());
  device_->Copy(*stream_, device_tokens_, stage.tokens, arrays * tokens * static_cast<int64_t>(sizeof(int32_t)));
  stage.copied = stream_->RecordToWait();
  model::MicroBatch batch{sequences, context, device_tokens_, device_tokens_ + tokens};
  if (arrays == 3) batch.starts = device_tokens_ + 2 * tokens;
  return batch;
}

}  // namespace zerofleet::trainer
