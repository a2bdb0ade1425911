// Opening and converting; see huggingface_source.h.
#include "worker/checkpoint/huggingface_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/device/dtype.h"

namespace zerofleet::checkpoint {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;

// The files that an index lists, each once; checks that they lie in the index's directory.
absl::StatusOr<std::set<std::string>> IndexedFiles(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxIndexBytes));
  absl::StatusOr<nlohmann::json> index = ParseJson(text);
  auto bad = [&](const std::string& what) { return absl::DataLossError(absl::StrCat(path, ": ", what)); };
  if (!index.ok()) return bad(std::string(index.status().message()));
  if (!index->is_object() || !index->contains("weight_map") || !(*index)["weight_map"].is_object()) {
    return bad("no weight_map");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : (*index)["weight_map"].items()) {
    if (!file.is_string()) return bad(absl::StrCat("weight_map['", tensor, "'] is not a file name"));
    std::string name = file.get<std::string>();
    if (name.find('/') != std::string::npos || !absl::EndsWith(name, ".safetensors")) {
      return bad(absl::StrCat("'", name, "' is not a plain name of a safetensors file"));
    }
    names.insert(name);
  }
  return names;
}

template <typename T>
T Load(const std::byte* data, size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

absl::StatusOr<HuggingFaceSource> HuggingFaceSource::Open(const std::string& directory,
                                                          const model::HuggingFaceFormat& format) {
  HuggingFaceSource source(directory, format);
  const std::string weights = JoinPath(directory, kHuggingFaceWeightsName), index = JoinPath(directory, kIndexName);
  ZF_ASSIGN_OR_RETURN(const bool has_weights, IsThere(weights));
  ZF_ASSIGN_OR_RETURN(const bool has_index, IsThere(index));
  if (has_weights) {
    ZF_RETURN_IF_ERROR(source.AddFile(weights));
  } else if (has_index) {
    ZF_ASSIGN_OR_RETURN(std::set<std::string> names, IndexedFiles(index));
    for (const std::string& name : names) ZF_RETURN_IF_ERROR(source.AddFile(JoinPath(directory, name)));
  } else {
    return absl::NotFoundError(
        absl::StrCat(directory, ": holds neither ", kHuggingFaceWeightsName, " nor ", kIndexName));
  }
  return source;
}

absl::StatusOr<HuggingFaceSource> HuggingFaceSource::OpenFile(const std::string& path,
                                                              const model::HuggingFaceFormat& format) {
  HuggingFaceSource source(ParentOf(path), format);
  ZF_RETURN_IF_ERROR(source.AddFile(path));
  return source;
}

absl::Status HuggingFaceSource::AddFile(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(SafetensorsHeader header, ReadSafetensorsHeader(path));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  for (SafetensorsTensor& tensor : header.tensors) {
    std::string name = tensor.name;
    if (name.starts_with(format_.prefix)) name.erase(0, format_.prefix.size());
    if (format_.IsBuffer(name)) continue;
    if (header.data_begin + tensor.end > static_cast<int64_t>(file->bytes().size())) {
      return absl::DataLossError(absl::StrCat(path, ": changed while it was read"));
    }
    if (!tensors_.try_emplace(name, Located{file.get(), tensor, header.data_begin}).second) {
      return absl::DataLossError(absl::StrCat(path, ": tensor '", name, "' is duplicated"));
    }
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

std::vector<std::string> HuggingFaceSource::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, located] : tensors_) names.push_back(name);
  return names;
}

absl::Status HuggingFaceSource::Check(const std::string& name, const std::vector<int64_t>& shape) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return absl::DataLossError(
        absl::StrCat(directory_, ": no tensor '", name, "', with or without '", std::string(format_.prefix), "'"));
  }
  const SafetensorsTensor& tensor = found->second.tensor;
  const std::string where = absl::StrCat(found->second.file->path(), ": tensor '", tensor.name, "'");
  if (tensor.shape != shape) {
    return absl::DataLossError(absl::StrCat(where, ": shape (", absl::StrJoin(tensor.shape, ", "),
                                            "), its configuration makes it (", absl::StrJoin(shape, ", "), ")"));
  }
  if (tensor.dtype != "F32" && tensor.dtype != "BF16" && tensor.dtype != "F16") {
    return absl::DataLossError(absl::StrCat(where, ": dtype ", tensor.dtype, ", expected F32, BF16 or F16"));
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceSource::Read(const std::string& name, const std::vector<int64_t>& shape,
                                     std::span<float> into) const {
  ZF_RETURN_IF_ERROR(Check(name, shape));
  const Located& located = tensors_.at(name);
  const std::string& dtype = located.tensor.dtype;
  ZF_CHECK(SafetensorsBytes("F32", shape) == static_cast<int64_t>(into.size_bytes()));
  const std::byte* data = located.file->bytes().data() + located.data_begin + located.tensor.begin;
  if (dtype == "F32") std::memcpy(into.data(), data, into.size_bytes());
  for (size_t i = 0; dtype == "BF16" && i < into.size(); ++i)
    into[i] = device::ToFloat(device::BF16{Load<uint16_t>(data, i)});
  for (size_t i = 0; dtype == "F16" && i < into.size(); ++i)
    into[i] = device::ToFloat(device::F16{Load<uint16_t>(data, i)});
  const auto odd = std::find_if_not(into.begin(), into.end(), [](float value) { return std::isfinite(value); });
  if (odd == into.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(located.file->path(), ": tensor '", located.tensor.name, "': element ",
                                          odd - into.begin(), " is ", *odd, "; weights must be finite"));
}

}  // namespace zerofleet::checkpoint
