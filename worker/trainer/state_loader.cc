// Reading, comparing and copying in; see state_loader.h.
#include "worker/trainer/state_loader.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/batch_shares.h"
#include "coordinator/environment.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/same_model.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/optim/loss_scaling.h"
#include "worker/trainer/state_sink.h"

namespace zerofleet::trainer {

namespace {

// The error for a damaged or missing checkpoint of frozen weights. The code says that neither `step_dir`, where the
// coordinator would look for damage, nor the reader is at fault.
absl::Status NoFaultOf(const std::string& step_dir, const absl::Status& base) {
  if (!absl::IsDataLoss(base) && !absl::IsNotFound(base)) return Annotate(base, "init_from");
  return absl::OutOfRangeError(
      absl::StrCat("init_from: ", base.message(), "; ", step_dir, " holds what was trained alone and needs it"));
}

}  // namespace

bool IsIn(const Snapshot& saved, const v1::CheckpointManifest& committed, const model::ModelPart& part,
          const std::vector<coordinator::PlacedRange>& ranges) {
  const v1::ReplicaHeader* held = saved.held();
  const v1::ShardFile* file = saved.file();
  if (held == nullptr || file == nullptr || checkpoint::StoredRanges(*file) != ranges) return false;
  if (checkpoint::PartOf(held->manifest(), held->rank()) != part) return false;
  if (held->manifest().step() != committed.step()) return false;
  if (held->manifest().generation() != committed.generation()) return false;
  return std::any_of(committed.files().begin(), committed.files().end(), [file](const v1::ShardFile& each) {
    return google::protobuf::util::MessageDifferencer::Equals(each, *file);
  });
}

absl::StatusOr<LoadedFrom> StateLoader::Load(const std::string& step_dir, const checkpoint::ManifestIdentity& committed,
                                             const std::function<void(const std::string&)>& note) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, checkpoint::ReadManifest(step_dir, committed));
  ZF_RETURN_IF_ERROR(checkpoint::CheckResumable(manifest, config_, step_dir));
  ZF_RETURN_IF_ERROR(CheckData(manifest, step_dir, note));
  NoteOtherBits(manifest, step_dir, note);
  zero::TrainingState& state = view_.engine->state();
  bool kept = state.LoadsWhatItStores() && IsIn(saved_, manifest, view_.layout.part(),
                                                view_.layout.partition().StoredRanges(view_.layout.options().rank));
  if (kept) {
    const absl::Status copied = saved_.CopyTo(state, device_, *view_.stream);
    kept = !absl::IsDataLoss(copied);
    if (kept) ZF_RETURN_IF_ERROR(copied);
    if (!kept) note(absl::StrCat(copied.message(), "; reading ", step_dir, " instead"));
  }
  // A checkpoint of step 0 may have been written for another optimizer: only its weights count.
  const bool same_optimizer =
      std::string_view(checkpoint::StoredOptimizer(manifest).name) == view_.layout.optimizer().name;
  if (!kept) ZF_RETURN_IF_ERROR(ReadShards(step_dir, manifest, same_optimizer));
  if (manifest.step() > 0) NoteAverage(manifest, step_dir, note);
  ZF_RETURN_IF_ERROR(NoFaultOf(step_dir, LoadFrozen()));
  ZF_RETURN_IF_ERROR(CheckBase(manifest, absl::StrCat("checkpoint ", step_dir)));
  view_.loaded_samples = manifest.data_cursor().samples_consumed();
  view_.loaded_best = manifest.best();
  const v1::EvaluateConfig &was = manifest.config().evaluate(), &is = config_.evaluate();
  const bool same_loss = was.best() == is.best() && was.weights() == is.weights() && was.batches() == is.batches() &&
                         (!manifest.has_data() || feed_.ChangesSince(manifest.data()).validation.text.empty());
  if (!same_loss) view_.loaded_best.Clear();
  view_.loaded_receipt = manifest.receipt();
  view_.loaded_receipt.clear_previous_xxh3_128();  // set by the coordinator
  view_.loaded_control = ControlOf(manifest);
  view_.loaded_own_part = false;
  return kept ? LoadedFrom::kMemory : LoadedFrom::kStorage;
}

void StateLoader::NoteAverage(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                              const std::function<void(const std::string&)>& note) const {
  const bool kept = view_.layout.optimizer().averages(), stored = checkpoint::StoredOptimizer(manifest).averages();
  if (kept == stored || view_.mesh.rank() != 0) return;
  note(absl::StrCat("checkpoint ", step_dir,
                    kept ? " holds no average of the weights (ema): it begins with its weights"
                         : " holds an average of the weights (ema), which is left out: ema.decay is 0"));
}

absl::Status StateLoader::CheckBase(const v1::CheckpointManifest& manifest, const std::string& state) const {
  if (view_.base_digest == manifest.base_xxh3_128()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("init_from: ", config_.init_from(), " has XXH3-128 ", view_.base_digest,
                                            ", but the frozen weights beside which ", state, " was trained had ",
                                            manifest.base_xxh3_128(), "; name those"));
}

absl::Status StateLoader::CheckData(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                                    const std::function<void(const std::string&)>& note) const {
  if (!manifest.has_data()) return absl::OkStatus();
  DataFeed::Changes changes = feed_.ChangesSince(manifest.data());
  std::string &training = changes.training.text, &validation = changes.validation.text;
  for (const v1::Fact& fact : manifest.environment()) {
    if (fact.name() != coordinator::kTokensOfText || fact.value() == feed_.token_makers()) continue;
    absl::StrAppend(&training, training.empty() ? "" : "; ", "its text was made into tokens by ", fact.value(),
                    ", now by ", feed_.token_makers().empty() ? "the tokenizer alone" : feed_.token_makers());
    changes.training.only_grew = false;
  }
  if (training.empty() && validation.empty()) return absl::OkStatus();
  const std::string text = absl::StrCat("the data are not those of checkpoint ", step_dir, ": ", training,
                                        training.empty() || validation.empty() ? "" : "; ", validation);
  if (config_.data().on_change() == "refuse" && !training.empty() && !changes.training.only_grew) {
    return absl::FailedPreconditionError(absl::StrCat(text, "; data.on_change: warn would go on with them"));
  }
  if (view_.mesh.rank() == 0) note(text);
  return absl::OkStatus();
}

void StateLoader::NoteOtherBits(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                                const std::function<void(const std::string&)>& note) const {
  if (view_.mesh.rank() != 0) return;
  std::string changes = ChangesSince(manifest.environment(), arithmetic_);
  const v1::Config& before = manifest.config();
  if (manifest.step() > 0 && coordinator::SumsInSampleOrder(before) && coordinator::SumsInSampleOrder(config_)) {
    const auto compare = [&changes](const char* key, int64_t earlier, int64_t now) {
      if (earlier != now) absl::StrAppend(&changes, changes.empty() ? "" : ", ", key, " ", now, ", was ", earlier);
    };
    compare("batch.micro_sequences", before.batch().micro_sequences(), config_.batch().micro_sequences());
    compare("parallel.tensor", before.parallel().tensor(), config_.parallel().tensor());
  }
  if (changes.empty()) return;
  note(absl::StrCat("checkpoint ", step_dir,
                    " was computed otherwise, so numbers may differ in their last bits from here on: ", changes));
}

absl::Status StateLoader::Restore(const v1::SnapshotId& snapshot) {
  ZF_ASSIGN_OR_RETURN(const v1::ReplicaHeader held,
                      snapshots_.CopyTo(snapshot, view_.engine->state(), device_, *view_.stream));
  return HasLoaded(held);
}

absl::Status StateLoader::RestoreFromPeer(
    const v1::SnapshotId& snapshot,
    const std::function<absl::Status(const v1::SnapshotShard&, IncomingSnapshot&)>& get) {
  v1::SnapshotShard wanted;
  *wanted.mutable_snapshot() = snapshot;
  wanted.set_rank(view_.mesh.rank());
  wanted.set_world_size(view_.mesh.world_size());
  StateSink state(snapshots_, wanted, view_.engine->state(), device_, *view_.stream);
  IncomingSnapshot incoming(state);
  ZF_RETURN_IF_ERROR(get(wanted, incoming));
  return HasLoaded(state.header());
}

absl::Status StateLoader::HasLoaded(const v1::ReplicaHeader& part) {
  view_.loaded_samples = part.manifest().data_cursor().samples_consumed();
  view_.loaded_best = part.manifest().best();
  view_.loaded_receipt = part.manifest().receipt();
  view_.loaded_control = ControlOf(part.manifest());
  view_.loaded_own_part = true;
  ZF_RETURN_IF_ERROR(Annotate(LoadFrozen(), "init_from"));
  return CheckBase(part.manifest(), absl::StrCat("the snapshot of step ", part.manifest().step()));
}

absl::Status StateLoader::LoadWeights(const std::string& step_dir) {
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, checkpoint::ReadManifest(step_dir, &view_.initial_digest));
  ZF_RETURN_IF_ERROR(checkpoint::CheckBaseModel(manifest, config_.model(), step_dir));
  ZF_RETURN_IF_ERROR(ReadShards(step_dir, manifest, /*with_states=*/false));
  ZF_RETURN_IF_ERROR(LoadFrozen());
  view_.loaded_samples = 0;
  view_.loaded_best.Clear();
  view_.loaded_receipt.Clear();
  view_.loaded_control = {.loss_scale = optim::LossScalingOf(view_.layout.options().dtype).first};
  view_.loaded_own_part = false;
  return absl::OkStatus();
}

absl::Status StateLoader::LoadFrozen() {
  view_.base_digest.clear();
  std::vector<coordinator::PlacedRange> wanted;
  for (int u = 0; u < view_.layout.units(); ++u) {
    if (view_.layout.frozen(u)) wanted.push_back(view_.layout.RestingParameters(u));
  }
  if (wanted.empty()) return absl::OkStatus();
  const std::string& from = config_.init_from();
  const absl::StatusOr<v1::CheckpointManifest> base = checkpoint::ReadManifest(from, &view_.base_digest);
  ZF_RETURN_IF_ERROR(base.status());
  ZF_RETURN_IF_ERROR(checkpoint::CheckBaseModel(*base, config_.model(), from));
  return checkpoint::LoadRanges(from, *base, checkpoint::StoredPlaces(spec_, *base, view_.spec.ToWhole(wanted)),
                                [&](int vector, int64_t offset, std::span<const float> values) {
                                  return vector == 0 ? view_.engine->TakeFrozen(offset, values) : absl::OkStatus();
                                });
}

absl::Status StateLoader::ReadShards(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                                     bool with_states) {
  zero::TrainingState& state = view_.engine->state();
  if (view_.spec.part().count > 1) {  // for the vocabulary's padding, which is not loaded
    ZF_RETURN_IF_ERROR(state.Clear(device_.ops(), *view_.stream));
  }
  if (!with_states) ZF_RETURN_IF_ERROR(view_.engine->Initialize(config_.seed()));
  // An average that is not stored begins with the weights; a stored one that is no longer kept is left out.
  const bool averages = view_.layout.optimizer().averages();
  const bool begins = averages && !(with_states && checkpoint::StoredOptimizer(manifest).averages());
  return checkpoint::LoadRanges(
      step_dir, manifest, checkpoint::StoredPlaces(spec_, manifest, view_.spec.ToWhole(state.RangesToLoad())),
      [&](int vector, int64_t offset, std::span<const float> values) {
        const auto copy_to = [&](size_t to) {
          return state.CopyIn(device_, *view_.stream, to, offset, static_cast<int64_t>(values.size()), values.data());
        };
        if (vector > 0 && (!with_states || static_cast<size_t>(vector) >= state.vector_count())) {
          return absl::OkStatus();
        }
        ZF_RETURN_IF_ERROR(copy_to(static_cast<size_t>(vector)));
        if (vector == 0 && begins) ZF_RETURN_IF_ERROR(copy_to(state.vector_count() - 1));
        return view_.stream->Synchronize();
      });
}

device::StepControl StateLoader::ControlOf(const v1::CheckpointManifest& manifest) const {
  device::StepControl control;
  control.skipped = manifest.loss_scale().skipped_steps();
  control.updates = manifest.step() - control.skipped;
  const device::LossScaling& scaling = optim::LossScalingOf(view_.layout.options().dtype);
  if (!scaling.dynamic) return control;
  const bool scaled = manifest.config().precision() == config_.precision() && manifest.loss_scale().scale() >= 1;
  control.loss_scale = scaled ? manifest.loss_scale().scale() : scaling.first;
  if (scaled) control.clean_steps = manifest.loss_scale().clean_steps();
  return control;
}

}  // namespace zerofleet::trainer
