// The rules that a manifest must satisfy, field by field and as a whole; see ValidateManifest in manifest.h.
//
// A digest shows that nothing changed since the manifest was written; these checks show that it makes sense. Both are
// needed: anyone who writes a file can write a matching digest.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"
#include "coordinator/batch_schedule.h"
#include "coordinator/partition.h"
#include "coordinator/placement.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/receipt.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/model/families.h"
#include "worker/model/foreign.h"
#include "worker/model/spec.h"
#include "worker/optim/loss_scaling.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::checkpoint {
namespace {

// Far larger than any model, and far smaller than what could overflow when multiplied by the bytes of an element.
constexpr int64_t kMaxElements = int64_t{1} << 50;
constexpr int64_t kBillion = 1'000'000'000;
constexpr int64_t kMaxSteps = 1000 * kBillion;
constexpr int64_t kMaxSamples = 4 * kBillion * kBillion;  // the sum of two runs' still fits 64 bits
constexpr uint64_t kMaxGeneration = INT64_MAX;            // the next one must fit, and some readers use signed numbers

absl::Status Wrong(const std::string& where, const std::string& what) {
  return absl::DataLossError(absl::StrCat(where, ": ", what));
}

struct IntegerRow {
  const char* key;
  int64_t value, smallest, largest;
};

std::vector<IntegerRow> IntegerRows(const v1::CheckpointManifest& m) {
  const v1::Config& c = m.config();
  return {
      {"config.parallel.workers", c.parallel().workers(), 1, coordinator::kMostRanks},
      {"config.parallel.zero_stage", c.parallel().zero_stage(), 0, 3},
      {"config.parallel.tensor", c.parallel().tensor(), 1, coordinator::kMostRanks},
      {"config.batch.global_sequences", c.batch().global_sequences(), 1, kBillion},
      {"config.batch.micro_sequences", c.batch().micro_sequences(), 1, kBillion},
      {"config.steps", c.steps(), 1, kMaxSteps},
      {"config.schedule.warmup_steps", c.schedule().warmup_steps(), 0, kMaxSteps},
      {"config.evaluate.every_steps", c.evaluate().every_steps(), 0, kMaxSteps},
      {"config.checkpoint.every_steps", c.checkpoint().every_steps(), 0, kMaxSteps},
      {"config.checkpoint.keep", c.checkpoint().keep(), 1, kBillion},
      {"step", m.step(), 0, c.steps()},
      {"world_size", m.world_size(), 1, coordinator::kMostRanks},
      {"zero_stage", m.zero_stage(), c.parallel().zero_stage(), c.parallel().zero_stage()},
      // Whatever the batch sizes have been, a step takes at least one sample and at most a billion.
      {"data_cursor.samples_consumed", m.data_cursor().samples_consumed(), m.step(),
       std::clamp<int64_t>(m.step(), 0, kMaxSamples / kBillion) * kBillion},
      {"loss_scale.skipped_steps", m.loss_scale().skipped_steps(), 0, m.step()},
      {"committed_unix_seconds", m.committed_unix_seconds(), 0, INT64_MAX},
  };
}

struct NumberRow {
  const char* key;
  double value;
  bool fits;
  const char* expected;
};

std::vector<NumberRow> NumberRows(const v1::Config& c) {
  return {
      {"config.schedule.min_learning_rate", c.schedule().min_learning_rate(), c.schedule().min_learning_rate() >= 0,
       ">= 0"},
      {"config.ema.decay", c.ema().decay(), c.ema().decay() >= 0 && c.ema().decay() <= 1, "0 to 1"},
  };
}

struct ChoiceRow {
  const char* key;
  const std::string& value;
  std::vector<std::string> choices;
};

absl::Status CheckConfiguration(const v1::CheckpointManifest& manifest) {
  const v1::Config& c = manifest.config();
  for (const IntegerRow& row : IntegerRows(manifest)) {
    if (row.value >= row.smallest && row.value <= row.largest) continue;
    return Wrong(row.key, absl::StrCat(row.value, ", expected ", row.smallest,
                                       row.smallest == row.largest ? "" : absl::StrCat(" to ", row.largest)));
  }
  if (const absl::Status team = coordinator::ConfiguredTeam(c.parallel()).status(); !team.ok()) {
    return Wrong("config.parallel.team", std::string(team.message()));
  }
  if (c.parallel().tensor() > 1 && manifest.format_version() != FormatVersionOf(c)) {
    return Wrong("config.parallel.tensor",
                 absl::StrCat(c.parallel().tensor(), ", expected 1 in version ", manifest.format_version()));
  }
  for (const NumberRow& row : NumberRows(c)) {
    if (!row.fits || !std::isfinite(row.value))
      return Wrong(row.key, absl::StrCat(row.value, ", expected ", row.expected));
  }
  if (const std::string wrong = coordinator::ScheduleError(c.batch()); !wrong.empty()) {
    return Wrong("config.batch.schedule", wrong);
  }
  for (const ChoiceRow& row :
       {ChoiceRow{"config.precision", c.precision(), {"bf16", "fp16", "fp32"}},
        ChoiceRow{"config.optimizer.name", c.optimizer().name(), optim::OptimizerNames()},
        ChoiceRow{
            "config.schedule.decay", c.schedule().decay(), {"cosine", "linear", "constant", "wsd", "restarts"}}}) {
    if (std::find(row.choices.begin(), row.choices.end(), row.value) == row.choices.end()) {
      return Wrong(row.key, absl::StrCat("unknown value '", row.value, "'"));
    }
  }
  for (const optim::OptimizerKey& key : StoredOptimizer(manifest).keys) {
    const double value = (c.optimizer().*key.get)();
    if (std::isfinite(value) && key.fits(value)) continue;
    return Wrong(absl::StrCat("config.optimizer.", key.name), absl::StrCat(key.wanted, ", got ", value));
  }
  return absl::OkStatus();
}

// Checks what a continued run starts from: the generation, the team, the seed, and the loss scale with its counts
// (loss_scaling.h).
absl::Status CheckRunState(const v1::CheckpointManifest& manifest) {
  if (manifest.generation() > kMaxGeneration) {
    return Wrong("generation", absl::StrCat(manifest.generation(), ", expected at most ", kMaxGeneration));
  }
  const int least_team = manifest.generation() > 0 ? 1 : 0;  // 0: no run has formed yet
  if (manifest.team() < least_team || manifest.team() > coordinator::kMostRanks) {
    return Wrong("team", absl::StrCat(manifest.team(), ", expected ", least_team, " to ", coordinator::kMostRanks));
  }
  if (manifest.random().seed() != manifest.config().seed()) {
    return Wrong("random.seed",
                 absl::StrCat(manifest.random().seed(), ", but config.seed is ", manifest.config().seed()));
  }
  const v1::LossScaleState& loss_scale = manifest.loss_scale();
  const bool scaled = manifest.config().precision() == "fp16";
  const device::LossScaling& scaling = scaled ? optim::kDynamicLossScaling : optim::kFixedLossScaling;
  const double most = scaling.most;
  if (!(loss_scale.scale() >= 1 && loss_scale.scale() <= most)) {
    return Wrong("loss_scale.scale", absl::StrCat(loss_scale.scale(), ", expected ", scaled ? "1 to " : "", most,
                                                  " with precision ", manifest.config().precision()));
  }
  const int64_t most_clean =
      scaled ? std::min(scaling.clean_steps_to_double - 1, manifest.step() - loss_scale.skipped_steps()) : 0;
  if (loss_scale.clean_steps() < 0 || loss_scale.clean_steps() > most_clean) {
    return Wrong("loss_scale.clean_steps", absl::StrCat(loss_scale.clean_steps(), ", expected 0 to ", most_clean));
  }
  return absl::OkStatus();
}

absl::Status CheckBest(const v1::CheckpointManifest& manifest) {
  const v1::BestLoss& best = manifest.best();
  if (!std::isfinite(best.loss()) || !std::isfinite(best.saved_loss())) return Wrong("best", "a loss is not finite");
  for (const int64_t step : {best.step(), best.saved_step()}) {
    if (step < 0 || step > manifest.step())
      return Wrong("best", absl::StrCat("step ", step, ", expected 0 to ", manifest.step()));
  }
  return best.stale_evaluations() >= 0 ? absl::OkStatus() : Wrong("best.stale_evaluations", "below 0");
}

absl::Status CheckReceipt(const v1::CheckpointManifest& manifest) {
  const std::string wrong = WhatIsWrongWithReceipt(manifest.receipt(), manifest.step());
  return wrong.empty() ? absl::OkStatus() : Wrong("receipt", wrong);
}

absl::Status CheckTensors(const v1::CheckpointManifest& manifest) {
  if (manifest.tensors().empty()) return Wrong("tensors", "empty");
  std::set<std::string> names;
  int64_t next = 0;
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    const v1::TensorEntry& tensor = manifest.tensors(i);
    const std::string where = absl::StrCat("tensors[", i, "]");
    if (tensor.name().empty()) return Wrong(where, "no name");
    if (!names.insert(tensor.name()).second) return Wrong(where, absl::StrCat("'", tensor.name(), "' is duplicated"));
    if (tensor.dtype() != kStoredDType) return Wrong(where, absl::StrCat("dtype '", tensor.dtype(), "', expected F32"));
    int64_t elements = 1;
    for (int64_t side : tensor.shape()) {
      if (side < 1 || __builtin_mul_overflow(elements, side, &elements)) elements = kMaxElements + 1;
      if (elements > kMaxElements) return Wrong(where, "impossible shape");
    }
    if (tensor.flat_begin() != next) {
      return Wrong(where, absl::StrCat("flat_begin ", tensor.flat_begin(), ", expected ", next));
    }
    if (tensor.flat_end() != next + elements) {
      return Wrong(where, absl::StrCat("flat_end ", tensor.flat_end(), ", the shape needs ", next + elements));
    }
    next += elements;
    if (next > kMaxElements) return Wrong(where, "more elements than any model has");
  }
  return absl::OkStatus();
}

// Checks that the tensor table equals that of the configured model, row by row.
absl::Status CheckTensorsOfModel(const v1::CheckpointManifest& manifest, const model::ModelSpec& spec) {
  const int expected = static_cast<int>(spec.tensors().size());
  if (manifest.tensors_size() != expected) {
    return Wrong("tensors", absl::StrCat(manifest.tensors_size(), " of them, config.model has ", expected));
  }
  for (int i = 0; i < expected; ++i) {
    const v1::TensorEntry& entry = manifest.tensors(i);
    const model::TensorSpec& tensor = spec.tensors()[i];
    if (entry.name() == tensor.name &&
        std::equal(entry.shape().begin(), entry.shape().end(), tensor.whole_shape.begin(), tensor.whole_shape.end())) {
      continue;
    }
    return Wrong(
        absl::StrCat("tensors[", i, "]"),
        absl::StrCat("'", entry.name(), "' is not what config.model has there, '", tensor.name, "' and its shape"));
  }
  return absl::OkStatus();
}

absl::Status CheckDataFiles(const v1::DataFiles& files, const std::string& where) {
  for (int f = 0; f < files.files_size(); ++f) {
    const v1::DataFile& file = files.files(f);
    const std::string at = absl::StrCat(where, ".files[", f, "]");
    if (file.path().empty()) return Wrong(at, "no path");
    if (file.bytes() < 0) return Wrong(at, absl::StrCat("bytes ", file.bytes(), ", expected >= 0"));
    if (!IsDigest(file.sampled_xxh3_128()))
      return Wrong(at, "sampled_xxh3_128 is not 32 lower-case hexadecimal digits");
  }
  if (files.more_files() < 0 || files.more_bytes() < 0) return Wrong(where, "a negative number of files or bytes");
  if (files.more_files() == 0 ? files.more_xxh3_128().empty() : IsDigest(files.more_xxh3_128())) {
    return absl::OkStatus();
  }
  return Wrong(where, "more_xxh3_128 is not 32 lower-case hexadecimal digits, or not expected");
}

absl::Status CheckTokenizer(const v1::CheckpointManifest& manifest) {
  std::set<std::string> names;
  for (int f = 0; f < manifest.tokenizer_size(); ++f) {
    const v1::TokenizerFile& file = manifest.tokenizer(f);
    const std::string at = absl::StrCat("tokenizer[", f, "]");
    if (!IsTokenizerFileName(file.name())) return Wrong(at, absl::StrCat("'", file.name(), "' is none of its files"));
    if (!names.insert(file.name()).second) return Wrong(at, absl::StrCat("'", file.name(), "' stands there twice"));
    if (file.bytes() < 0) return Wrong(at, absl::StrCat("bytes ", file.bytes(), ", expected >= 0"));
    if (!IsDigest(file.xxh3_128())) return Wrong(at, "xxh3_128 is not 32 lower-case hexadecimal digits");
  }
  return absl::OkStatus();
}

// Merges ranges that are adjacent both in the flat space and in the file: an import stores the whole model that way.
std::vector<coordinator::PlacedRange> Merged(const std::vector<coordinator::PlacedRange>& ranges) {
  std::vector<coordinator::PlacedRange> merged;
  for (const coordinator::PlacedRange& range : ranges) {
    if (!merged.empty() && merged.back().flat_end == range.flat_begin &&
        merged.back().offset + merged.back().elements() == range.offset) {
      merged.back().flat_end = range.flat_end;
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

// `number` is the file's number among the files of its part of the model, which `map` divides.
absl::Status CheckRanges(const v1::ShardFile& file, int number, const coordinator::PartitionMap& map,
                         const std::string& where) {
  for (int r = 0; r < file.ranges_size(); ++r) {
    const v1::FlatRange& range = file.ranges(r);
    if (range.flat_begin() >= 0 && range.flat_begin() < range.flat_end() && range.flat_end() <= map.TotalElements() &&
        range.offset() >= 0 && range.offset() <= map.TotalElements()) {
      continue;
    }
    return Wrong(absl::StrCat(where, ".ranges[", r, "]"),
                 absl::StrCat("[", range.flat_begin(), ", ", range.flat_end(), ") at offset ", range.offset(),
                              " is not a range within ", map.TotalElements(), " elements"));
  }
  const std::vector<coordinator::PlacedRange> expected = Merged(map.StoredRanges(number)),
                                              found = Merged(StoredRanges(file));
  if (found == expected) return absl::OkStatus();
  const size_t r = static_cast<size_t>(
      std::mismatch(found.begin(), found.end(), expected.begin(), expected.end()).first - found.begin());
  const auto text = [](const std::vector<coordinator::PlacedRange>& ranges, size_t i) {
    if (i >= ranges.size()) return std::string("none");
    return absl::StrCat("[", ranges[i].flat_begin, ", ", ranges[i].flat_end, ") at offset ", ranges[i].offset);
  };
  return Wrong(absl::StrCat(where, ".ranges"),
               absl::StrCat("contiguous range ", r, " is ", text(found, r), ", but rank ", number, " of ",
                            map.world_size(), " owns ", text(expected, r)));
}

// `spec` may be that of any part: all have the same partition.
absl::Status CheckFiles(const v1::CheckpointManifest& manifest, const model::ModelSpec& spec) {
  if (manifest.files_size() != manifest.world_size()) {
    return Wrong("files",
                 absl::StrCat(manifest.files_size(), " of them, expected one per rank of ", manifest.world_size()));
  }
  const int parts = spec.part().count;
  if (manifest.world_size() % parts != 0) {
    return Wrong("world_size",
                 absl::StrCat(manifest.world_size(), ", expected a multiple of config.parallel.tensor ", parts));
  }
  const coordinator::PartitionMap map(spec.units(), manifest.world_size() / parts);
  for (int f = 0; f < manifest.files_size(); ++f) {
    const v1::ShardFile& file = manifest.files(f);
    const std::string where = absl::StrCat("files[", f, "]");
    if (file.rank() != f) return Wrong(where, absl::StrCat("rank ", file.rank(), ", expected ", f));
    if (file.name() != ShardFileName(f)) {
      return Wrong(where, absl::StrCat("name '", file.name(), "', expected ", ShardFileName(f)));
    }
    if (!IsDigest(file.xxh3_128())) return Wrong(where, "xxh3_128 is not 32 lower-case hexadecimal digits");
    ZF_RETURN_IF_ERROR(CheckRanges(file, f / parts, map, where));
    const int64_t least = StoredElements(file) * StoredOptimizer(manifest).StateBytesPerParameter();
    if (file.bytes() <= least || file.bytes() > least + kMaxSafetensorsHeaderBytes + kSafetensorsLengthBytes) {
      return Wrong(where, absl::StrCat("bytes ", file.bytes(), ", its ranges need ", least, " and a header"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckManifestVersion(int64_t version) {
  if (version > kManifestFormatVersion) {
    return Wrong("format_version", absl::StrCat(version, " is of a later version of Zerofleet; this one reads up to ",
                                                kManifestFormatVersion));
  }
  if (version >= 1) return absl::OkStatus();
  return Wrong("format_version", absl::StrCat(version, ", expected 1 to ", kManifestFormatVersion));
}

absl::Status ValidateManifest(const v1::CheckpointManifest& manifest) {
  ZF_RETURN_IF_ERROR(CheckManifestVersion(manifest.format_version()));
  if (!manifest.has_config()) return Wrong("config", "missing");
  if (!manifest.has_data_cursor()) return Wrong("data_cursor", "missing");
  if (!manifest.has_loss_scale()) return Wrong("loss_scale", "missing");
  if (!manifest.has_random()) return Wrong("random", "missing");
  ZF_RETURN_IF_ERROR(CheckConfiguration(manifest));
  ZF_RETURN_IF_ERROR(CheckRunState(manifest));
  ZF_RETURN_IF_ERROR(CheckDataFiles(manifest.data().train(), "data.train"));
  ZF_RETURN_IF_ERROR(CheckDataFiles(manifest.data().validation(), "data.validation"));
  ZF_RETURN_IF_ERROR(CheckTokenizer(manifest));
  ZF_RETURN_IF_ERROR(CheckBest(manifest));
  ZF_RETURN_IF_ERROR(CheckReceipt(manifest));
  ZF_RETURN_IF_ERROR(CheckTensors(manifest));
  absl::StatusOr<model::ModelSpec> spec = model::ModelSpec::Create(manifest.config().model(), PartOf(manifest, 0));
  if (!spec.ok()) return Wrong("config", std::string(spec.status().message()));
  const v1::ModelConfig& model = manifest.config().model();
  if (!model::IsForeign(model)) {
    ZF_ASSIGN_OR_RETURN(const model::ModelFamily* family, model::FindModelFamily(model.family()));
    if (!family->grouped_queries() && model.kv_heads() != model.heads()) {
      return Wrong("config.model.kv_heads", absl::StrCat(model.kv_heads(), ", expected ", model.heads(), " as heads"));
    }
  }
  ZF_RETURN_IF_ERROR(CheckTensorsOfModel(manifest, *spec));
  const bool frozen = std::any_of(spec->units().begin(), spec->units().end(),
                                  [](const coordinator::UnitExtent& unit) { return unit.frozen; });
  if (frozen ? !IsDigest(manifest.base_xxh3_128()) : !manifest.base_xxh3_128().empty()) {
    return Wrong("base_xxh3_128", frozen ? "not 32 lower-case hexadecimal digits" : "not empty, but nothing is frozen");
  }
  if (frozen && manifest.config().init_from().empty()) return Wrong("config.init_from", "empty, but units are frozen");
  return CheckFiles(manifest, *spec);
}

}  // namespace zerofleet::checkpoint
