// One pass over each file, which hashes everything and hands on what is wanted; see shard_reader.h.
#include "worker/checkpoint/shard_reader.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "coordinator/reshard.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/same_model.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/model/spec.h"

namespace zerofleet::checkpoint {
namespace {

// The number of files that are verified at the same time, each through its own buffer: a single reader gets only a
// fraction of the throughput of parallel storage.
constexpr int kMostVerifiedAtOnce = 8;

absl::Status Bad(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// Reads a file from front to back and hashes it on the way.
class HashedReader {
 public:
  explicit HashedReader(std::string path) : path_(std::move(path)) {}

  absl::Status Read(std::span<std::byte> into) {
    ZF_RETURN_IF_ERROR(ReadAt(path_, position_, into));
    position_ += static_cast<int64_t>(into.size());
    digest_.Update(into);
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ReadText(int64_t bytes) {
    std::string text(bytes, '\0');
    ZF_RETURN_IF_ERROR(Read(std::as_writable_bytes(std::span(text))));
    return text;
  }
  const std::string& path() const { return path_; }
  std::string digest() const { return digest_.Hex(); }

 private:
  std::string path_;
  int64_t position_ = 0;
  StreamingDigest digest_;
};

// Reads the header, and checks that the vectors are the optimizer's, with the length that the manifest gives.
absl::StatusOr<SafetensorsHeader> ReadHeader(const v1::ShardFile& file, const optim::OptimizerRow& optimizer,
                                             HashedReader& reader) {
  ZF_ASSIGN_OR_RETURN(std::string first, reader.ReadText(std::min(file.bytes(), kSafetensorsLengthBytes)));
  absl::StatusOr<int64_t> length = ParseSafetensorsLength(first, file.bytes());
  if (!length.ok()) return Annotate(length.status(), reader.path());
  ZF_ASSIGN_OR_RETURN(std::string text, reader.ReadText(*length));
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(text, file.bytes());
  if (!header.ok()) return Annotate(header.status(), reader.path());
  std::vector<SafetensorsTensor> expected = ShardTensors(optimizer, StoredElements(file));
  if (StoredElements(file) == 0) {  // the rank owns nothing: all vectors have one offset, and no order
    for (std::vector<SafetensorsTensor>* tensors : {&expected, &header->tensors}) {
      std::ranges::sort(*tensors, {}, &SafetensorsTensor::name);
    }
  }
  bool equal = header->tensors.size() == expected.size();
  for (size_t i = 0; equal && i < expected.size(); ++i) {
    const SafetensorsTensor& tensor = header->tensors[i];
    equal = tensor.name == expected[i].name && tensor.dtype == expected[i].dtype && tensor.shape == expected[i].shape;
  }
  if (!equal) {
    std::vector<std::string> names;
    for (const SafetensorsTensor& tensor : expected) names.push_back(tensor.name);
    return Bad(reader.path(), absl::StrCat("does not hold ", absl::StrJoin(names, ", "), " of ", StoredElements(file),
                                           " F32 elements each, which ", optimizer.name, " keeps"));
  }
  return header;
}

// Hands on those of the elements [first, first + chunk.size()) of a vector that `copies`, sorted by source offset,
// want.
absl::Status PlaceWanted(std::span<const float> chunk, int64_t first, std::span<const coordinator::RangeCopy> copies,
                         int vector, const ShardSink& sink) {
  const int64_t last = first + static_cast<int64_t>(chunk.size());
  for (const coordinator::RangeCopy& copy : copies) {
    if (copy.source_offset >= last) break;
    const int64_t begin = std::max(first, copy.source_offset);
    const int64_t end = std::min(last, copy.source_offset + copy.length);
    if (begin >= end) continue;
    ZF_RETURN_IF_ERROR(sink(vector, copy.target_offset + (begin - copy.source_offset),
                            chunk.subspan(static_cast<size_t>(begin - first), static_cast<size_t>(end - begin))));
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const std::string& path, const v1::ShardFile& file) {
  absl::StatusOr<int64_t> bytes = FileBytes(path);
  if (absl::IsNotFound(bytes.status())) return Bad(path, "missing, but listed in the manifest");
  ZF_RETURN_IF_ERROR(bytes.status());
  if (*bytes == file.bytes()) return absl::OkStatus();
  return Bad(path, absl::StrCat(*bytes, " bytes, but the manifest says ", file.bytes(),
                                *bytes < file.bytes() ? ": truncated" : ": too long"));
}

absl::Status ReadShard(const std::string& path, const v1::ShardFile& file, const optim::OptimizerRow& optimizer,
                       std::span<const coordinator::RangeCopy> copies, const ShardSink& sink, std::span<float> buffer,
                       std::atomic<int64_t>* read_bytes = nullptr) {
  ZF_RETURN_IF_ERROR(CheckLength(path, file));
  HashedReader reader(path);
  ZF_RETURN_IF_ERROR(ReadHeader(file, optimizer, reader));
  const int64_t elements = StoredElements(file);
  for (int vector = 0; vector < static_cast<int>(optimizer.vectors.size()); ++vector) {
    for (int64_t first = 0; first < elements; first += static_cast<int64_t>(buffer.size())) {
      std::span<float> chunk = buffer.first(std::min<size_t>(buffer.size(), elements - first));
      ZF_RETURN_IF_ERROR(reader.Read(std::as_writable_bytes(chunk)));
      if (read_bytes != nullptr) *read_bytes += static_cast<int64_t>(chunk.size_bytes());
      ZF_RETURN_IF_ERROR(PlaceWanted(chunk, first, copies, vector, sink));
    }
  }
  if (reader.digest() == file.xxh3_128()) return absl::OkStatus();
  return Bad(path,
             absl::StrCat("corrupt: its XXH3-128 is ", reader.digest(), ", but the manifest says ", file.xxh3_128()));
}

// Elements of the buffer: a chunk, or less if no file holds as many.
size_t BufferElements(const v1::CheckpointManifest& manifest) {
  int64_t most = 1;
  for (const v1::ShardFile& file : manifest.files()) most = std::max(most, StoredElements(file));
  return static_cast<size_t>(std::min<int64_t>(most, kShardChunkBytes / static_cast<int64_t>(sizeof(float))));
}

// The ranges of the whole model that each file holds. Tensors that every part has are in the files of each part.
absl::StatusOr<std::vector<std::vector<coordinator::PlacedRange>>> WholeRanges(const v1::CheckpointManifest& manifest) {
  std::vector<std::vector<coordinator::PlacedRange>> held;
  for (const v1::ShardFile& file : manifest.files()) held.push_back(StoredRanges(file));
  const int count = PartOf(manifest, 0).count;
  if (count == 1) return held;
  std::vector<model::ModelSpec> parts;
  for (int index = 0; index < count; ++index) {
    ZF_ASSIGN_OR_RETURN(model::ModelSpec spec, model::ModelSpec::Create(manifest.config().model(), {index, count}));
    parts.push_back(std::move(spec));
  }
  for (int i = 0; i < manifest.files_size(); ++i) {
    held[i] = parts[PartOf(manifest, manifest.files(i).rank()).index].ToWhole(held[i]);
  }
  return held;
}

struct WantedRanges {
  std::vector<coordinator::PlacedRange> trained, frozen;
};

// `wanted` cut where frozen units begin and end.
absl::StatusOr<WantedRanges> CutByUnits(const v1::CheckpointManifest& manifest,
                                        const std::vector<coordinator::PlacedRange>& wanted) {
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(manifest.config().model()));
  WantedRanges cut;
  for (const coordinator::PlacedRange& range : wanted) {
    for (const coordinator::UnitExtent& unit : spec.units()) {
      const int64_t begin = std::max(range.flat_begin, unit.flat_begin), end = std::min(range.flat_end, unit.flat_end);
      if (begin >= end) continue;
      (unit.frozen ? cut.frozen : cut.trained).push_back({begin, end, range.offset + (begin - range.flat_begin)});
    }
  }
  return cut;
}

absl::Status LoadStored(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const ShardSink& sink);

// `sink` receives trained elements, `frozen_sink` the weights of frozen ones.
absl::Status LoadWithBase(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                          const std::vector<coordinator::PlacedRange>& wanted, const ShardSink& sink,
                          const ShardSink& frozen_sink, int depth) {
  constexpr int kMostBases = 16;  // a chain of fine-tunings; a longer one must have a loop
  if (manifest.base_xxh3_128().empty()) return LoadStored(step_dir, manifest, wanted, sink);
  if (depth == kMostBases) return Bad(step_dir, absl::StrCat("has more than ", kMostBases, " bases behind it"));
  ZF_ASSIGN_OR_RETURN(const WantedRanges cut, CutByUnits(manifest, wanted));
  ZF_RETURN_IF_ERROR(LoadStored(step_dir, manifest, cut.trained, sink));
  if (cut.frozen.empty()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest base, ReadBase(step_dir, manifest));
  // The base may have a longer position table.
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(manifest.config().model()));
  return LoadWithBase(manifest.config().init_from(), base, StoredPlaces(spec, base, cut.frozen), frozen_sink,
                      frozen_sink, depth + 1);
}

// Hands on only the elements of vector `index`.
ShardSink OneVector(int index, const WeightSink& sink) {
  return [index, &sink](int vector, int64_t offset, std::span<const float> values) {
    return vector == index ? sink(offset, values) : absl::OkStatus();
  };
}

}  // namespace

absl::StatusOr<v1::CheckpointManifest> ReadBase(const std::string& step_dir, const v1::CheckpointManifest& manifest) {
  const std::string& path = manifest.config().init_from();
  std::string digest;
  const absl::StatusOr<v1::CheckpointManifest> base = ReadManifest(path, &digest);
  if (!base.ok()) {
    return Annotate(base.status(), absl::StrCat(step_dir, ": its frozen weights are those of ", path));
  }
  if (digest != manifest.base_xxh3_128()) {
    return Bad(step_dir, absl::StrCat("its frozen weights are those of ", path, " with XXH3-128 ",
                                      manifest.base_xxh3_128(), ", but the checkpoint there has ", digest));
  }
  ZF_RETURN_IF_ERROR(CheckBaseModel(*base, manifest.config().model(), path));
  return base;
}

absl::Status LoadRanges(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const ShardSink& sink) {
  const WeightSink frozen = [&sink](int64_t offset, std::span<const float> values) { return sink(0, offset, values); };
  return LoadWithBase(step_dir, manifest, wanted, sink, OneVector(0, frozen), /*depth=*/0);
}

absl::Status LoadWeights(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                         const std::vector<coordinator::PlacedRange>& wanted, WeightsOf which, const WeightSink& sink) {
  const optim::OptimizerRow& optimizer = StoredOptimizer(manifest);
  if (which == WeightsOf::kAverage && !optimizer.averages()) {
    return absl::InvalidArgumentError(
        absl::StrCat(step_dir, ": holds no average of the weights; a run with ema.decay keeps one"));
  }
  const int index = which == WeightsOf::kAverage ? static_cast<int>(optimizer.vectors.size()) - 1 : 0;
  return LoadWithBase(step_dir, manifest, wanted, OneVector(index, sink), OneVector(0, sink), /*depth=*/0);
}

namespace {

absl::Status LoadStored(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const ShardSink& sink) {
  if (wanted.empty()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::vector<std::vector<coordinator::PlacedRange>> sources, WholeRanges(manifest));
  absl::StatusOr<std::vector<coordinator::RangeCopy>> copies = coordinator::Reshard(sources, wanted);
  if (!copies.ok()) return Annotate(copies.status(), step_dir);
  const optim::OptimizerRow& optimizer = StoredOptimizer(manifest);
  std::vector<float> buffer(BufferElements(manifest));
  for (auto begin = copies->begin(); begin != copies->end();) {
    auto end = std::find_if(begin, copies->end(),
                            [&](const coordinator::RangeCopy& copy) { return copy.source != begin->source; });
    const v1::ShardFile& file = manifest.files(begin->source);
    ZF_RETURN_IF_ERROR(
        ReadShard(JoinPath(step_dir, file.name()), file, optimizer, std::span(begin, end), sink, buffer));
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadRanges(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const std::vector<float*>& targets) {
  return LoadRanges(step_dir, manifest, wanted, [&](int vector, int64_t offset, std::span<const float> values) {
    float* const target = vector < static_cast<int>(targets.size()) ? targets[vector] : nullptr;
    if (target != nullptr) std::ranges::copy(values, target + offset);
    return absl::OkStatus();
  });
}

absl::Status CheckShardLengths(const std::string& step_dir, const v1::CheckpointManifest& manifest) {
  for (const v1::ShardFile& file : manifest.files()) {
    ZF_RETURN_IF_ERROR(CheckLength(JoinPath(step_dir, file.name()), file));
  }
  return absl::OkStatus();
}

absl::Status VerifyShards(const std::string& dir, const v1::CheckpointManifest& manifest,
                          std::atomic<int64_t>* read_bytes) {
  const optim::OptimizerRow& optimizer = StoredOptimizer(manifest);
  std::vector<absl::Status> verified(manifest.files_size());
  std::atomic<int> next = 0, first_bad = manifest.files_size();
  const auto verify = [&] {
    std::vector<float> buffer(BufferElements(manifest));
    for (int i = next++; i < first_bad; i = next++) {
      const v1::ShardFile& file = manifest.files(i);
      const std::string path = JoinPath(dir, file.name());
      DropFromCache(path);
      verified[i] = ReadShard(path, file, optimizer, {}, nullptr, buffer, read_bytes);
      if (verified[i].ok()) continue;
      for (int known = first_bad; i < known && !first_bad.compare_exchange_weak(known, i);) {
      }
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < std::min(manifest.files_size(), kMostVerifiedAtOnce); ++i) others.emplace_back(verify);
  verify();
  for (std::thread& other : others) other.join();
  return first_bad < manifest.files_size() ? verified[first_bad] : absl::OkStatus();
}

absl::Status VerifyCheckpoint(const std::string& step_dir) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(step_dir));
  ZF_RETURN_IF_ERROR(VerifyTokenizerFiles(step_dir, manifest));
  return VerifyShards(step_dir, manifest);
}

absl::Status VerifyCheckpoint(const std::string& step_dir, const ManifestIdentity& committed,
                              std::atomic<int64_t>* read_bytes) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(step_dir, committed));
  ZF_RETURN_IF_ERROR(VerifyTokenizerFiles(step_dir, manifest));
  return VerifyShards(step_dir, manifest, read_bytes);
}

}  // namespace zerofleet::checkpoint
