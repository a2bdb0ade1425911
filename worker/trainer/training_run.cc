// The parts of one rank, combined; see training_run.h.
#include "worker/trainer/training_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"
#include "coordinator/batch_shares.h"
#include "coordinator/config_digest.h"
#include "coordinator/environment.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/receipt.h"
#include "worker/model/foreign.h"
#include "worker/optim/loss_scaling.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/schedule.h"
#include "worker/trainer/rank_report.h"
#include "worker/trainer/rules_of_learning.h"
#include "worker/trainer/tensor_table.h"
#include "worker/zero/divergence.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/schedule.h"

namespace zerofleet::trainer {
namespace {

constexpr uint64_t kStopFlag = 1, kSendingFlag = 2, kSaveFlag = 4;

zero::StepChecks ChecksOf(const v1::IntegrityConfig& config, int64_t step) {
  const auto is_due = [step](int64_t every) { return every > 0 && step % every == 0; };
  return {.parameters = is_due(config.every_steps()), .replay = is_due(config.replay_every_steps())};
}

bool IsDelayed(const v1::DelayedUpdateConfig& config, int64_t step) {
  return config.after_steps() > 0 && step > config.after_steps();
}

// The GPU's attention kernels keep tiles of heads in shared memory (worker/device/cuda/attention_tiled.h).
absl::Status CheckHeadsOn(const v1::ModelConfig& config, const device::Device& device) {
  constexpr int64_t kMostOnCuda = 256;
  if (model::IsForeign(config) || device.kind() != "cuda") return absl::OkStatus();
  const int64_t size = config.head_size() > 0 ? config.head_size() : config.hidden() / config.heads();
  if (size <= kMostOnCuda) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("model: heads of ", size,
                                                    " elements are not supported on device cuda, which takes at most ",
                                                    kMostOnCuda, "; use more heads, or device: cpu"));
}

// The host must be able to address matrices of which the device has a part.
absl::Status CheckOffloadOn(const v1::OffloadConfig& config, const optim::OptimizerRow& optimizer,
                            const device::Device& device) {
  if (device.host_addressable() || config.fraction() == 1 || !optimizer.whole_matrices) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("offload.fraction: must be 1 with ", optimizer.name, " on device ",
                                                    device.kind(), ", got ", config.fraction()));
}

// There are two events for each tensor, and a session does not take more than these at once
// (services/session/session_journal.h).
constexpr int64_t kMostHistogramTensors = 2000;

absl::Status CheckHistograms(const v1::HistogramsConfig& config, const model::ModelSpec& spec) {
  if (config.every_steps() == 0) return absl::OkStatus();
  const int64_t trained = std::count_if(spec.tensors().begin(), spec.tensors().end(),
                                        [](const model::TensorSpec& tensor) { return !tensor.frozen; });
  if (trained <= kMostHistogramTensors) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("histograms.every_steps: must be 0 with more than ",
                                                    kMostHistogramTensors, " trained tensors, got ",
                                                    config.every_steps(), " and ", trained, " tensors"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Prepare(const v1::Config& config, device::Device& device,
                                                                  const Clock& clock, MetricsSink& metrics,
                                                                  std::shared_ptr<SnapshotStore> snapshots,
                                                                  data::TextOptions text,
                                                                  model::ForeignPasses* passes) {
  ZF_ASSIGN_OR_RETURN(model::ModelSpec spec, model::ModelSpec::Create(config.model()));
  const int tensor = static_cast<int>(config.parallel().tensor());
  ZF_RETURN_IF_ERROR(model::ModelSpec::Create(config.model(), {.index = 0, .count = tensor}).status());
  if (snapshots == nullptr) snapshots = std::make_shared<SnapshotStore>();
  std::unique_ptr<TrainingRun> run(
      new TrainingRun(config, std::move(spec), device, clock, metrics, std::move(snapshots)));
  ZF_ASSIGN_OR_RETURN(const optim::OptimizerRow* optimizer, optim::OptimizerOf(config));
  ZF_RETURN_IF_ERROR(CheckOffloadOn(config.offload(), *optimizer, device));
  ZF_RETURN_IF_ERROR(CheckHistograms(config.histograms(), run->spec_));
  ZF_RETURN_IF_ERROR(CheckHeadsOn(config.model(), device));
  ZF_ASSIGN_OR_RETURN(model::ModelRun how, ModelRunOf(config));
  how.passes = passes;
  ZF_ASSIGN_OR_RETURN(run->model_, model::Model::Create(config.model(), how, device));
  ZF_ASSIGN_OR_RETURN(run->feed_, DataFeed::Open(config, std::move(text)));
  ZF_ASSIGN_OR_RETURN(run->arithmetic_, ArithmeticOf(device, how.dtype));
  if (model::IsForeign(config.model()) && passes != nullptr) {
    ZF_RETURN_IF_ERROR(passes->Prepare(config, device));
    for (const auto& [name, value] : passes->Facts()) {
      v1::Fact& fact = *run->arithmetic_.Add();
      fact.set_name(name);
      fact.set_value(value);
    }
  }
  const double tokens = coordinator::SequencesInAll(config.batch(), static_cast<double>(config.steps())) *
                        static_cast<double>(config.model().context());
  const double flops = run->spec_.FlopsPerToken() * tokens / config.parallel().workers();
  run->peak_.emplace(device, how.dtype, PeakMeter::IsWorthCare(flops));
  return run;
}

Environment TrainingRun::environment() const {
  Environment environment;
  if (!model::IsForeign(config_.model())) environment = DataOf(feed_->Fingerprint());
  environment.MergeFrom(StoredEnvironment());
  return environment;
}

Environment TrainingRun::StoredEnvironment() const {
  Environment environment = arithmetic_;
  if (feed_->token_makers().empty()) return environment;
  v1::Fact& fact = *environment.Add();
  fact.set_name(coordinator::kTokensOfText);
  fact.set_value(feed_->token_makers());
  return environment;
}

std::string TrainingRun::config_digest() const { return coordinator::ConfigDigest(config_); }

TrainingRun::~TrainingRun() {
  Leave();
  snapshots_->Release();
}

absl::Status TrainingRun::Enter(const parallel::Mesh& mesh, parallel::GroupCommunicators groups) {
  ZF_CHECK(view_ == nullptr);
  ZF_ASSIGN_OR_RETURN(view_,
                      ViewParts::Build({config_, *model_, device_, clock_, saved_, saves_}, mesh, std::move(groups)));
  for (const std::unique_ptr<collective::Communicator>& communicator : view_->groups.all()) {
    communicator->SetObserver([this, &group = *communicator](const collective::CollectiveRecord& record) {
      ObserveCollective(group, record, metrics_);
      if (trace_ != nullptr) trace_->AddCollective(group.group(), record);
    });
  }
  if (trace_ != nullptr) trace_->Enter(mesh.rank(), mesh.generation());
  feed_->Attach(mesh.data(), device_, *view_->stream, view_->device_arena->TakeAs<int32_t>(zero::kTokensRow),
                view_->host_arena->TakeAs<int32_t>(zero::kTokenStagingRow));
  return TakesSnapshots(config_) ? snapshots_->EnterView(PlaceInView(), *view_->host_arena) : absl::OkStatus();
}

void TrainingRun::Leave() {
  snapshots_->LeaveView();
  if (view_ != nullptr) peak_->Leave(*view_);
  view_.reset();
}

SnapshotPlace TrainingRun::PlaceInView() const {
  const parallel::Mesh& mesh = view_->mesh;
  SnapshotPlace place{.generation = mesh.generation(),
                      .rank = mesh.rank(),
                      .world_size = mesh.world_size(),
                      .bytes = zero::TrainingState::StoredBytes(view_->layout),
                      .most_bytes = zero::TrainingState::MostStoredBytes(view_->layout),
                      .config = config_};
  if (!KeepsReplicas(config_, mesh.data().size())) return place;
  place.replica_owner = mesh.replica_owner();
  const std::vector<int>& ranks = mesh.data().ranks;
  const auto number = std::find(ranks.begin(), ranks.end(), place.replica_owner) - ranks.begin();
  place.replica_bytes = zero::TrainingState::StoredBytes(view_->layout, static_cast<int>(number));
  return place;
}

// The digested schedule is that of a plain step, followed, where some steps check more, by that of such a step.
absl::StatusOr<ViewDigests> TrainingRun::view_digests() const {
  std::vector<zero::StepChecks> kinds = {{}};
  const v1::IntegrityConfig& integrity = config_.integrity();
  if (integrity.every_steps() + integrity.replay_every_steps() > 0) {
    kinds.push_back({.parameters = integrity.every_steps() > 0, .replay = integrity.replay_every_steps() > 0});
  }
  std::string text;
  for (const zero::StepChecks& checks : kinds) {
    ZF_ASSIGN_OR_RETURN(const std::vector<zero::ScheduledCollective> schedule, view_->plan.Schedule(checks));
    absl::StrAppend(&text, zero::DescribeSchedule(schedule));
  }
  return ViewDigests{.layout = Digest128(view_->layout.Describe(view_->spec)), .schedule = Digest128(text)};
}

StateLoader TrainingRun::loader() {
  return StateLoader(config_, spec_, device_, *feed_, arithmetic_, saved_, *snapshots_, *view_);
}

absl::Status TrainingRun::Start(bool loaded, const v1::Start& start) {
  ZF_RETURN_IF_ERROR(peak_->Begin(*view_, start.in_recovery()));
  feed_->Seek(start.step(), loaded ? view_->loaded_samples : 0, coordinator::SkippedSamples(start.skipped()));
  best_.emplace(config_.evaluate(), loaded ? view_->loaded_best : v1::BestLoss());
  receipt_ = loaded ? view_->loaded_receipt : v1::Receipt();
  view_->spikes.emplace(config_.divergence(), std::vector<double>(start.losses().begin(), start.losses().end()));
  const bool gathers = loaded && view_->loaded_own_part && !view_->engine->state().LoadsWhatItStores();
  if (gathers) ZF_RETURN_IF_ERROR(view_->engine->GatherLoadedState());
  ZF_RETURN_IF_ERROR(loaded ? view_->engine->PublishLoadedState(view_->loaded_control)
                            : view_->engine->Initialize(config_.seed()));
  return WarmUp(start.step());
}

// A GPU loads code when it is first used, which can deadlock during a collective (ZeroEngine::WarmUp). The device
// memory that this takes is in its figures from the start.
absl::Status TrainingRun::WarmUp(int64_t step) {
  if (device_.host_addressable()) return absl::OkStatus();
  const zero::StepInput input{.step = step + 1,
                              .learning_rate = config_.optimizer().learning_rate(),
                              .tokens = TokensOf(step + 1),
                              .batch = BatchOf(step + 1)};
  const bool evaluates = feed_->has_validation() && config_.evaluate().every_steps() > 0;
  struct Shape {
    int set;
    int64_t pass;
  };
  std::vector<Shape> shapes;
  for (int set = 0; evaluates && set < std::ssize(feed_->validation_sets()); ++set) {
    for (const int64_t pass : feed_->EvaluationShapes(set)) shapes.push_back({set, pass});
  }
  ZF_RETURN_IF_ERROR(view_->engine->WarmUp(
      input, [&](int number, int64_t micro) { return feed_->TrainingBatch(step + 1, number, micro); },
      std::ssize(shapes), [&](int64_t i) { return feed_->Evaluation(shapes[i].pass, shapes[i].set); }));
  memory_asked_at_ = 0;
  ExportDeviceMemory();
  return absl::OkStatus();
}

int64_t TrainingRun::TokensOf(int64_t step) const {
  return coordinator::SequencesOf(config_.batch(), step) * config_.model().context();
}

zero::StepBatch TrainingRun::BatchOf(int64_t step) const {
  const int64_t sequences = coordinator::SequencesOf(config_.batch(), step);
  return {.micro_batches = coordinator::MicroBatchesOf(config_, view_->mesh.data().size(), sequences),
          .leaves = coordinator::LeavesOf(config_, sequences)};
}

absl::Status TrainingRun::Launch(int64_t step, const StepRequests& asked) {
  ZF_RETURN_IF_ERROR(peak_->Again(*view_));
  view_->launches.push_back(
      {clock_.MonotonicSeconds(), optim::LearningRate(config_.optimizer(), config_.schedule(), config_.steps(), step)});
  zero::StepInput input{
      .step = step,
      .learning_rate = view_->launches.back().learning_rate,
      .tokens = feed_->CountedTokens(step),
      .flags = (asked.stop ? kStopFlag : 0) | (asked.sending ? kSendingFlag : 0) | (asked.save ? kSaveFlag : 0),
      .checks = ChecksOf(config_.integrity(), step),
      .delayed = IsDelayed(config_.offload().delayed_update(), step),
      .looks_ahead = config_.offload().delayed_update().lookahead(),
      .batch = BatchOf(step),
      .ema_decay = config_.ema().decay(),
      .ema_start = config_.ema().start_step(),
      .histograms = DrawsHistogramsOf(step)};
  if (trace_ != nullptr && trace_->Wants(step)) {
    ZF_ASSIGN_OR_RETURN(input.traced_since, trace_->Begin(*view_->stream));
  }
  return view_->engine->Launch(input,
                               [&](int number, int64_t micro) { return feed_->TrainingBatch(step, number, micro); });
}

// All ranks judge alike: they have the same numbers.
absl::StatusOr<zero::StepResult> TrainingRun::CollectStep() {
  absl::StatusOr<zero::StepResult> result = view_->engine->Collect();
  std::optional<v1::Divergence> divergence = zero::DivergenceOf(result.status());
  if (result.ok() && std::isfinite(result->loss) && std::isfinite(result->grad_norm)) {
    if (std::string wrong = view_->spikes->Judge(result->loss); !wrong.empty()) {
      divergence.emplace().set_step(result->step);
      divergence->set_cause(std::move(wrong));
      divergence->set_spike(true);
    }
  }
  if (!divergence) return result;
  divergence->set_samples_consumed(feed_->SamplesConsumed(divergence->step()));
  return zero::DivergenceError(*divergence);
}

absl::StatusOr<TrainingRun::StepOutcome> TrainingRun::Collect() {
  ZF_ASSIGN_OR_RETURN(zero::StepResult result, CollectStep());
  checkpoint::AddToReceipt(checkpoint::NumbersOf(result.step, result.loss, result.grad_norm), &receipt_);
  const ViewParts::LaunchTime launched = view_->launches.front();
  view_->launches.pop_front();
  // A step begins when it is launched, or when the previous one is done.
  double now = clock_.MonotonicSeconds();
  double seconds = std::max(now - std::max(launched.at, view_->collected_at), 1e-9);
  view_->collected_at = now;
  const int64_t tokens = TokensOf(result.step);
  StepOutcome outcome;
  outcome.stop = (result.flags & kStopFlag) != 0;
  outcome.sending = (result.flags & kSendingFlag) != 0;
  outcome.save = (result.flags & kSaveFlag) != 0;
  v1::StepEvent& event = outcome.event;
  event.set_step(result.step);
  event.set_loss(result.loss);
  event.set_grad_norm(result.grad_norm);
  event.set_learning_rate(launched.learning_rate);
  event.set_tokens(tokens);
  event.set_seconds(seconds);
  event.set_tokens_per_second(static_cast<double>(tokens) / seconds);
  ++view_->steps_done;
  std::string peak_note;
  event.set_mfu(view_->peak.Utilization(result.step, spec_.FlopsPerToken() * event.tokens_per_second(), &peak_note));
  if (!peak_note.empty()) outcome.notes.push_back(std::move(peak_note));
  event.set_generation(view_->mesh.generation());
  view_->pace.Add(result.phases);
  if (trace_ != nullptr && trace_->Wants(result.step)) trace_->End(result.step, result.spans);
  ExportFigures(outcome, result);
  for (const device::RefusedShape& refused : device_.ops().TakeRefusedShapes()) {
    metrics_.ShapeRefused(refused.op);
    outcome.notes.push_back(
        absl::StrCat(refused.op, " of ", refused.shape, " runs on slower kernels: ", refused.reason));
  }
  return outcome;
}

void TrainingRun::ExportFigures(const StepOutcome& outcome, const zero::StepResult& result) {
  const v1::StepEvent& event = outcome.event;
  const parallel::Group& data = view_->mesh.data();
  const int64_t own = coordinator::SequencesOfRank(config_, data.size(), data.rank,
                                                   coordinator::SequencesOf(config_.batch(), result.step));
  const bool counts = view_->mesh.tensor().rank == 0;  // a tensor group trains on the same tokens
  metrics_.StepDone({.step = event.step(),
                     .loss = event.loss(),
                     .grad_norm = event.grad_norm(),
                     .learning_rate = event.learning_rate(),
                     .tokens = counts ? own * config_.model().context() : 0,
                     .mfu = event.mfu()});
  for (size_t i = 0; i < zero::kMarkedPhases; ++i) {
    const auto phase = static_cast<zero::StepPhase>(i);
    metrics_.PhaseDone(phase, result.phases[phase]);
  }
  metrics_.SetLossScale(result.loss_scale);
  if (result.skipped) metrics_.StepSkipped();
  ExportMemory(memory::Space::kDevice, view_->device_arena->figures(), metrics_);
  ExportMemory(memory::Space::kHost, view_->host_arena->figures(), metrics_);
  const device::LinkTraffic link = view_->engine->link();
  ExportLink(link, view_->exported_link, metrics_);
  view_->exported_link = link;
  ExportDeviceMemory();
}

// At most once a second, since it takes the driver's locks between two launches.
void TrainingRun::ExportDeviceMemory() {
  const double now = clock_.MonotonicSeconds();
  if (memory_asked_at_ != 0 && now - memory_asked_at_ < 1) return;
  memory_asked_at_ = now;
  if (std::optional<device::DeviceMemory> memory = device_.memory(); memory.has_value()) {
    metrics_.SetDeviceMemory(memory->total_bytes, memory->used_bytes,
                             memory->used_bytes - view_->device_arena->figures().reserved);
  }
}

bool TrainingRun::DrawsHistogramsOf(int64_t step) const {
  const int64_t every = config_.histograms().every_steps();
  return every > 0 && step % every == 0;
}

absl::StatusOr<std::vector<v1::HistogramEvent>> TrainingRun::Histograms(int64_t step) {
  ZF_ASSIGN_OR_RETURN(const std::vector<zero::TensorSpreads> spreads, view_->engine->TakeHistograms());
  std::vector<v1::HistogramEvent> events;
  const auto add = [&](const std::string& tensor, const char* values, const zero::Spread& spread) {
    if (spread.count == 0) return;
    v1::HistogramEvent& event = events.emplace_back();
    event.set_step(step);
    event.set_tensor(tensor);
    event.set_values(values);
    event.set_least(spread.least);
    event.set_most(spread.most);
    event.set_count(spread.count);
    event.set_sum(spread.sum.Value());
    event.set_sum_of_squares(spread.squares.Value());
    for (const zero::Spread::Bucket& bucket : spread.Buckets()) {
      event.add_limits(bucket.limit);
      event.add_counts(bucket.count);
    }
  };
  for (const zero::TensorSpreads& one : spreads) {
    add(one.tensor, "weights", one.weights);
    add(one.tensor, "gradients", one.gradients);
  }
  return events;
}

bool TrainingRun::EvaluatesAfter(int64_t step) const {
  int64_t every = config_.evaluate().every_steps();
  return feed_->has_validation() && every > 0 && (step % every == 0 || step == config_.steps());
}

absl::StatusOr<v1::EvaluateEvent> TrainingRun::Evaluate(int64_t step) {
  const double began = clock_.MonotonicSeconds();
  ZF_RETURN_IF_ERROR(view_->engine->Flush());
  const bool of_average = config_.evaluate().weights() == "ema";
  if (of_average) ZF_RETURN_IF_ERROR(view_->engine->PublishAverage());
  v1::EvaluateEvent event;
  event.set_step(step);
  double loss_of_all = 0, tokens_of_all = 0;
  for (int set = 0; set < std::ssize(feed_->validation_sets()); ++set) {
    const bool foreign = model::IsForeign(config_.model());
    auto tokens = foreign ? 0 : static_cast<double>(feed_->EvaluationTokens(set));
    ZF_ASSIGN_OR_RETURN(const double loss_sum,
                        view_->engine->EvaluateLossSum(
                            feed_->EvaluationPasses(set), [&](int64_t pass) { return feed_->Evaluation(pass, set); },
                            foreign ? &tokens : nullptr));
    loss_of_all += loss_sum;
    tokens_of_all += tokens;
    const std::string& name = feed_->validation_sets()[set].name;
    if (name.empty()) continue;
    v1::SetLoss& one = *event.add_sets();
    one.set_name(name);
    one.set_loss(loss_sum / tokens);
  }
  if (of_average) ZF_RETURN_IF_ERROR(view_->engine->PublishWeights());
  event.set_loss(loss_of_all / tokens_of_all);
  best_->Evaluated(event);
  if (trace_ != nullptr) trace_->AddPause("evaluate", clock_.MonotonicSeconds() - began);
  return event;
}

absl::Status TrainingRun::Save(int64_t step, std::function<void(v1::ShardWritten)> written, double waited) {
  ZF_RETURN_IF_ERROR(view_->engine->Flush());
  const std::string partial_dir = checkpoint::PartialDirectory(
      checkpoint::StepDirectory(config_.checkpoint().dir(), step), view_->mesh.generation());
  best_->Saved(step);
  if (view_->checkpointer->MustReserve()) ZF_RETURN_IF_ERROR(view_->engine->Finish());
  if (view_->mesh.rank() == 0) {
    written = [written = std::move(written), data = feed_->Fingerprint(),
               environment = StoredEnvironment()](v1::ShardWritten shard) {
      *shard.mutable_data() = data;
      *shard.mutable_environment() = environment;
      written(std::move(shard));
    };
  }
  ZF_ASSIGN_OR_RETURN(const double stall,
                      view_->checkpointer->Save(partial_dir, Manifest(step), std::move(written), waited));
  metrics_.PhaseDone(zero::StepPhase::kCheckpoint, stall);
  if (trace_ != nullptr) trace_->AddPause("checkpoint", stall);
  return absl::OkStatus();
}

absl::StatusOr<v1::SnapshotShard> TrainingRun::TakeSnapshot(int64_t step) {
  const double start = clock_.MonotonicSeconds();
  ZF_RETURN_IF_ERROR(view_->engine->Flush());
  v1::CheckpointManifest manifest = Manifest(step);
  manifest.clear_tensors();
  ZF_ASSIGN_OR_RETURN(v1::SnapshotShard shard,
                      snapshots_->Take(manifest, view_->engine->state(), device_, *view_->stream));
  metrics_.PhaseDone(zero::StepPhase::kCheckpoint, clock_.MonotonicSeconds() - start);
  return shard;
}

v1::CheckpointManifest TrainingRun::Manifest(int64_t step) const {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(checkpoint::FormatVersionOf(config_));
  manifest.set_step(step);
  manifest.set_generation(view_->mesh.generation());
  *manifest.mutable_config() = config_;
  SetTensorTable(spec_, &manifest);
  manifest.set_base_xxh3_128(view_->base_digest);
  manifest.mutable_data_cursor()->set_samples_consumed(feed_->SamplesConsumed(step));
  if (receipt_.steps_size() > 0) *manifest.mutable_receipt() = receipt_;
  if (best_->state().step() > 0) *manifest.mutable_best() = best_->state();
  const device::StepControl& control = view_->engine->control();
  manifest.mutable_loss_scale()->set_scale(control.loss_scale);
  manifest.mutable_loss_scale()->set_clean_steps(control.clean_steps);
  manifest.mutable_loss_scale()->set_skipped_steps(control.skipped);
  manifest.mutable_random()->set_seed(config_.seed());
  manifest.set_world_size(view_->mesh.world_size());
  manifest.set_team(view_->mesh.team());
  manifest.set_zero_stage(config_.parallel().zero_stage());
  return manifest;
}

v1::RankReport TrainingRun::Report(int64_t step) const {
  v1::RankReport report = BuildRankReport(view_->mesh.rank(), *view_->device_arena, *view_->host_arena, view_->groups,
                                          view_->engine->link());
  if (view_->mesh.rank() != 0) return report;
  for (const v1::SetShare& share : feed_->Shares(step)) *report.add_data() = share;
  return report;
}

v1::Pace TrainingRun::pace() const { return view_->pace.Median(); }

v1::FlightRecord TrainingRun::Flight() const {
  return FlightOf(view_->mesh.rank(), view_->mesh.world_size(), view_->groups, clock_.MonotonicSeconds());
}

}  // namespace zerofleet::trainer
