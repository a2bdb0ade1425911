// Reading and writing the header; see safetensors.h.
#include "worker/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "proto/json_parse.h"

namespace zerofleet::checkpoint {
namespace {

using nlohmann::json;

constexpr char kMetadataKey[] = "__metadata__";
constexpr size_t kMaxDimensions = 16;
constexpr int kMaxHeaderDepth = 4;  // the deepest valid nesting is 3: the header, a tensor, an array

struct TypeSize {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<TypeSize, 15> kTypes = {{{"F64", 8},
                                              {"F32", 4},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"I64", 8},
                                              {"I32", 4},
                                              {"I16", 2},
                                              {"I8", 1},
                                              {"U64", 8},
                                              {"U32", 4},
                                              {"U16", 2},
                                              {"U8", 1},
                                              {"BOOL", 1},
                                              {"F8_E4M3", 1},
                                              {"F8_E5M2", 1}}};

// The value as a non-negative int64_t; -1 if it is none.
int64_t Size(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) return -1;
  return static_cast<int64_t>(value.get<uint64_t>());
}

absl::Status BadTensor(const std::string& name, const std::string& what) {
  return absl::DataLossError(absl::StrCat("tensor '", name, "': ", what));
}

absl::StatusOr<SafetensorsTensor> ParseTensor(const std::string& name, const json& value) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return BadTensor(name, "must have dtype, shape and data_offsets, and nothing else");
  }
  const json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string()) return BadTensor(name, "dtype is not a string");
  if (!shape.is_array() || shape.size() > kMaxDimensions) return BadTensor(name, "shape is not an array of at most 16");
  if (!offsets.is_array() || offsets.size() != 2) return BadTensor(name, "data_offsets is not an array of two");
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype.get<std::string>();
  for (const json& side : shape) {
    tensor.shape.push_back(Size(side));
    if (tensor.shape.back() < 0) return BadTensor(name, "shape contains something other than a size");
  }
  tensor.begin = Size(offsets[0]);
  tensor.end = Size(offsets[1]);
  if (tensor.begin < 0 || tensor.end < tensor.begin) return BadTensor(name, "data_offsets are not an ascending pair");
  int64_t bytes = SafetensorsBytes(tensor.dtype, tensor.shape);
  if (bytes < 0) return BadTensor(name, "unknown dtype, or a size of more than 63 bits");
  if (tensor.end - tensor.begin != bytes) {
    return BadTensor(
        name, absl::StrCat("data_offsets span ", tensor.end - tensor.begin, " bytes, dtype and shape need ", bytes));
  }
  return tensor;
}

// Checks that the tensors, in the order of their data, cover the data exactly.
absl::Status CheckCover(const std::vector<SafetensorsTensor>& tensors, int64_t data_bytes) {
  int64_t next = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != next) {
      return BadTensor(tensor.name, absl::StrCat("data begins at byte ", tensor.begin, ", expected at ", next,
                                                 tensor.begin < next ? " (overlap)" : " (gap)"));
    }
    next = tensor.end;
  }
  if (next == data_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the tensors hold ", next, " bytes of data, the file has ", data_bytes));
}

}  // namespace

const char* SafetensorsTypeOf(device::DType dtype) {
  switch (dtype) {
    case device::DType::kF32: return "F32";
    case device::DType::kBF16: return "BF16";
    case device::DType::kF16: return "F16";
  }
  return "";
}

int64_t SafetensorsBytes(std::string_view dtype, const std::vector<int64_t>& shape) {
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeSize& t) { return t.name == dtype; });
  if (type == kTypes.end()) return -1;
  int64_t bytes = type->bytes;
  for (int64_t side : shape) {
    if (side < 0 || __builtin_mul_overflow(bytes, side, &bytes)) return -1;
  }
  return bytes;
}

absl::StatusOr<int64_t> ParseSafetensorsLength(std::string_view first_bytes, int64_t file_bytes) {
  if (static_cast<int64_t>(first_bytes.size()) < kSafetensorsLengthBytes || file_bytes < kSafetensorsLengthBytes) {
    return absl::DataLossError("shorter than a safetensors header");
  }
  uint64_t length = 0;
  for (int byte = kSafetensorsLengthBytes - 1; byte >= 0; --byte) {
    length = length << 8 | static_cast<unsigned char>(first_bytes[byte]);
  }
  const uint64_t most =
      std::min<uint64_t>(kMaxSafetensorsHeaderBytes, static_cast<uint64_t>(file_bytes - kSafetensorsLengthBytes));
  if (length > most) {
    return absl::DataLossError(
        absl::StrCat("the header's length is given as ", length, " bytes, but at most ", most, " are possible"));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, int64_t file_bytes) {
  absl::StatusOr<json> parsed = ParseJson(text, kMaxHeaderDepth, kMaxSafetensorsKeys);
  if (!parsed.ok()) return absl::DataLossError(absl::StrCat("header: ", std::string(parsed.status().message())));
  if (!parsed->is_object()) return absl::DataLossError("header: not a JSON object");
  SafetensorsHeader header;
  header.data_begin = kSafetensorsLengthBytes + static_cast<int64_t>(text.size());
  for (const auto& [name, value] : parsed->items()) {
    if (name == kMetadataKey) continue;
    ZF_ASSIGN_OR_RETURN(SafetensorsTensor tensor, ParseTensor(name, value));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  ZF_RETURN_IF_ERROR(CheckCover(header.tensors, file_bytes - header.data_begin));
  return header;
}

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const int64_t file_bytes, FileBytes(path));
  std::string first(std::min(file_bytes, kSafetensorsLengthBytes), '\0');
  ZF_RETURN_IF_ERROR(ReadAt(path, 0, std::as_writable_bytes(std::span(first))));
  absl::StatusOr<int64_t> length = ParseSafetensorsLength(first, file_bytes);
  if (!length.ok()) return Annotate(length.status(), path);
  std::string text(*length, '\0');
  ZF_RETURN_IF_ERROR(ReadAt(path, kSafetensorsLengthBytes, std::as_writable_bytes(std::span(text))));
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(text, file_bytes);
  if (!header.ok()) return Annotate(header.status(), path);
  return header;
}

std::string EncodeSafetensorsHeader(const std::vector<SafetensorsTensor>& tensors) {
  nlohmann::ordered_json header;
  header[kMetadataKey] = {{"format", "pt"}};  // Hugging Face's readers require it
  int64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const int64_t bytes = SafetensorsBytes(tensor.dtype, tensor.shape);
    ZF_CHECK(bytes >= 0);
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = DumpJson(header);
  text.resize(RoundUp(static_cast<int64_t>(text.size()), 8), ' ');
  std::string encoded;
  for (int byte = 0; byte < kSafetensorsLengthBytes; ++byte) {
    encoded.push_back(static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * byte)));
  }
  return encoded + text;
}

}  // namespace zerofleet::checkpoint
