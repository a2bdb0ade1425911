// The container and its blocks; see gguf.h.
//
// A file is: magic, version, counts, facts (key, type, value), tensors (name, dimensions with the fastest first, type,
// offset), padding, data. A block of a quantized type is 32 elements with an fp16 scale, and an fp16 minimum for Q4_1.
#include "worker/checkpoint/gguf.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cut_text.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/device/dtype.h"

namespace zerofleet::checkpoint {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr uint64_t kMostFacts = 1 << 16, kMostGgufTensors = 1 << 20, kMostDimensions = 4;
constexpr size_t kMostShown = 100;  // bytes of a name in a message
constexpr int64_t kGgufBlock = 32, kMostGgufElements = int64_t{1} << 40;
constexpr char kAlignmentKey[] = "general.alignment";

enum FactType : uint32_t { kUint32 = 4, kInt32 = 5, kFloat = 6, kBool = 7, kText = 8, kArray = 9 };

// Bytes of a number of this type; 0 for types that are no numbers.
size_t NumberBytes(uint32_t type) {
  constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

absl::Status MalformedGguf(const std::string& what) { return absl::DataLossError(what); }

class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int64_t at() const { return static_cast<int64_t>(at_); }

  template <typename T>
  absl::StatusOr<T> Read() {
    if (bytes_.size() - at_ < sizeof(T)) return MalformedGguf("ends in its header");
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  absl::StatusOr<std::string> ReadText() {
    ZF_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>());
    if (length > bytes_.size() - at_) return MalformedGguf("ends in a text of its header");
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data() + at_);
    at_ += length;
    return std::string(begin, length);
  }

  absl::StatusOr<double> ReadNumber(uint32_t type) {
    switch (type) {
      case 0: return As<uint8_t>();
      case 1: return As<int8_t>();
      case 2: return As<uint16_t>();
      case 3: return As<int16_t>();
      case kUint32: return As<uint32_t>();
      case kInt32: return As<int32_t>();
      case kFloat: return As<float>();
      case kBool: return As<uint8_t>();
      case 10: return As<uint64_t>();
      case 11: return As<int64_t>();
      case 12: return As<double>();
      default: return MalformedGguf(absl::StrCat("has a fact of type ", type));
    }
  }

  absl::StatusOr<GgufValue> ReadValue(uint32_t type) {
    if (type == kText) return ReadText();
    if (type != kArray) return ReadNumber(type);
    ZF_ASSIGN_OR_RETURN(const uint32_t element, Read<uint32_t>());
    ZF_ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>());
    // A text takes at least the 8 bytes of its length, so no count can request more memory than the file has bytes.
    const size_t least = element == kText ? sizeof(uint64_t) : NumberBytes(element);
    if (least == 0) return MalformedGguf(absl::StrCat("has an array of type ", element));
    if (count > (bytes_.size() - at_) / least) return MalformedGguf("ends in an array of its header");
    if (element == kText) {
      std::vector<std::string> texts(count);
      for (std::string& text : texts) {
        ZF_ASSIGN_OR_RETURN(text, ReadText());
      }
      return texts;
    }
    std::vector<double> numbers(count);
    for (double& number : numbers) {
      ZF_ASSIGN_OR_RETURN(number, ReadNumber(element));
    }
    return numbers;
  }

 private:
  template <typename T>
  absl::StatusOr<double> As() {
    ZF_ASSIGN_OR_RETURN(const T value, Read<T>());
    return static_cast<double>(value);
  }

  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

class GgufWriter {
 public:
  template <typename T>
  void Write(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void WriteText(const std::string& text) {
    Write<uint64_t>(text.size());
    bytes_ += text;
  }

  void operator()(uint32_t value) { WriteTyped(kUint32, value); }
  void operator()(float value) { WriteTyped(kFloat, value); }
  void operator()(bool value) { WriteTyped(kBool, static_cast<uint8_t>(value)); }
  void operator()(const std::string& value) {
    Write<uint32_t>(kText);
    WriteText(value);
  }
  void operator()(const std::vector<std::string>& values) {
    BeginArray(kText, values.size());
    for (const std::string& value : values) WriteText(value);
  }
  void operator()(const std::vector<int32_t>& values) {
    BeginArray(kInt32, values.size());
    for (const int32_t value : values) Write(value);
  }

  std::string Padded() && {
    bytes_.resize(static_cast<size_t>(RoundUp(static_cast<int64_t>(bytes_.size()), kGgufAlignment)));
    return std::move(bytes_);
  }

 private:
  template <typename T>
  void WriteTyped(FactType type, T value) {
    Write<uint32_t>(type);
    Write(value);
  }
  void BeginArray(FactType element, uint64_t count) {
    Write<uint32_t>(kArray);
    Write<uint32_t>(element);
    Write(count);
  }

  std::string bytes_ = std::string(kGgufMagic);
};

// Reads a tensor's entry; `begin` is only its offset in the data section.
absl::StatusOr<GgufTensor> ReadGgufTensor(GgufReader& reader) {
  GgufTensor tensor;
  ZF_ASSIGN_OR_RETURN(tensor.name, reader.ReadText());
  const std::string where = absl::StrCat("tensor '", CutText(tensor.name, kMostShown), "': ");
  ZF_ASSIGN_OR_RETURN(const uint32_t dimensions, reader.Read<uint32_t>());
  if (dimensions == 0 || dimensions > kMostDimensions)
    return MalformedGguf(absl::StrCat(where, dimensions, " dimensions"));
  int64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    ZF_ASSIGN_OR_RETURN(const uint64_t size, reader.Read<uint64_t>());
    if (size == 0 || size > static_cast<uint64_t>(kMostGgufElements / elements)) {
      return MalformedGguf(absl::StrCat(where, "a dimension of ", size));
    }
    elements *= static_cast<int64_t>(size);
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  ZF_ASSIGN_OR_RETURN(tensor.type, reader.Read<uint32_t>());
  ZF_ASSIGN_OR_RETURN(const uint64_t offset, reader.Read<uint64_t>());
  if (offset > static_cast<uint64_t>(INT64_MAX) / 2) return MalformedGguf(absl::StrCat(where, "an offset of ", offset));
  tensor.begin = static_cast<int64_t>(offset);
  // A type that is not supported has a place too, but its end is unknown.
  const int64_t bytes =
      tensor.shape.back() % kGgufBlock == 0 || GgufBytes(tensor.type, 1) > 0 ? GgufBytes(tensor.type, elements) : -1;
  tensor.end = bytes < 0 ? -1 : tensor.begin + bytes;
  return tensor;
}

float Half(const std::byte* data) {
  uint16_t bits;
  std::memcpy(&bits, data, sizeof bits);
  return device::ToFloat(device::F16{bits});
}

struct GgufTypeRow {
  uint32_t type;
  const char* name;
  int64_t elements, bytes;  // per block
};
constexpr GgufTypeRow kGgufTypes[] = {{0, "F32", 1, 4},
                                      {1, "F16", 1, 2},
                                      {2, "Q4_0", kGgufBlock, 18},
                                      {3, "Q4_1", kGgufBlock, 20},
                                      {8, "Q8_0", kGgufBlock, 34},
                                      {30, "BF16", 1, 2}};

const GgufTypeRow* FindGgufType(uint32_t type) {
  const auto* const row = std::find_if(std::begin(kGgufTypes), std::end(kGgufTypes),
                                       [&](const GgufTypeRow& one) { return one.type == type; });
  return row == std::end(kGgufTypes) ? nullptr : row;
}

// Unpacks a block's nibbles: its first half is in the low ones, its second half in the high ones.
template <typename Value>
void FromNibbles(const std::byte* nibbles, float* into, const Value& value) {
  for (int64_t i = 0; i < kGgufBlock / 2; ++i) {
    const auto pair = std::to_integer<int>(nibbles[i]);
    into[i] = value(pair & 0xF);
    into[i + kGgufBlock / 2] = value(pair >> 4);
  }
}

}  // namespace

absl::StatusOr<double> GgufFile::Number(const std::string& key) const {
  const auto found = facts.find(key);
  if (found == facts.end()) return MalformedGguf(absl::StrCat(key, " is missing"));
  if (const auto* number = std::get_if<double>(&found->second)) return *number;
  return MalformedGguf(absl::StrCat(key, " must be a number"));
}

absl::StatusOr<std::string> GgufFile::Text(const std::string& key) const {
  const auto found = facts.find(key);
  if (found == facts.end()) return MalformedGguf(absl::StrCat(key, " is missing"));
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  return MalformedGguf(absl::StrCat(key, " must be a text"));
}

const std::vector<std::string>* GgufFile::Texts(const std::string& key) const {
  const auto found = facts.find(key);
  return found == facts.end() ? nullptr : std::get_if<std::vector<std::string>>(&found->second);
}

const std::vector<double>* GgufFile::Numbers(const std::string& key) const {
  const auto found = facts.find(key);
  return found == facts.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
}

bool IsGguf(std::string_view head) { return head.starts_with(kGgufMagic); }

absl::StatusOr<GgufFile> ParseGguf(std::span<const std::byte> bytes) {
  GgufReader reader(bytes);
  ZF_ASSIGN_OR_RETURN(const uint32_t magic, reader.Read<uint32_t>());
  if (std::memcmp(&magic, kGgufMagic.data(), sizeof magic) != 0) return MalformedGguf("is no GGUF file");
  ZF_ASSIGN_OR_RETURN(const uint32_t version, reader.Read<uint32_t>());
  if (version != 2 && version != 3) {
    return MalformedGguf(absl::StrCat("GGUF version ", version, " is not supported; 2 and 3 are"));
  }
  ZF_ASSIGN_OR_RETURN(const uint64_t tensors, reader.Read<uint64_t>());
  ZF_ASSIGN_OR_RETURN(const uint64_t facts, reader.Read<uint64_t>());
  if (tensors > kMostGgufTensors || facts > kMostFacts) {
    return MalformedGguf(absl::StrCat("has ", tensors, " tensors and ", facts, " facts, too many"));
  }
  GgufFile file;
  for (uint64_t i = 0; i < facts; ++i) {
    ZF_ASSIGN_OR_RETURN(std::string key, reader.ReadText());
    ZF_ASSIGN_OR_RETURN(const uint32_t type, reader.Read<uint32_t>());
    absl::StatusOr<GgufValue> value = reader.ReadValue(type);
    if (!value.ok()) return Annotate(value.status(), CutText(key, kMostShown));
    if (!file.facts.emplace(std::move(key), *std::move(value)).second) return MalformedGguf("has a fact twice");
  }
  std::set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    ZF_ASSIGN_OR_RETURN(GgufTensor tensor, ReadGgufTensor(reader));
    if (!names.insert(tensor.name).second)
      return MalformedGguf(absl::StrCat("tensor '", tensor.name, "' is duplicated"));
    file.tensors.push_back(std::move(tensor));
  }
  int64_t alignment = kGgufAlignment;
  if (file.Has(kAlignmentKey)) {
    ZF_ASSIGN_OR_RETURN(const double given, file.Number(kAlignmentKey));
    if (!(given >= 1 && given <= 1 << 20)) return MalformedGguf(absl::StrCat(kAlignmentKey, " is ", given));
    alignment = static_cast<int64_t>(given);
  }
  const int64_t data = RoundUp(reader.at(), alignment);
  for (GgufTensor& tensor : file.tensors) {
    if (tensor.end < 0) continue;
    tensor.begin += data;
    tensor.end += data;
    if (tensor.end > static_cast<int64_t>(bytes.size())) {
      return MalformedGguf(
          absl::StrCat("tensor '", tensor.name, "' reaches beyond the file's ", bytes.size(), " bytes"));
    }
  }
  return file;
}

std::string EncodeGgufHeader(const GgufFacts& facts, const std::vector<GgufTensor>& tensors) {
  constexpr uint32_t kGgufVersion = 3;
  GgufWriter writer;
  writer.Write(kGgufVersion);
  writer.Write<uint64_t>(tensors.size());
  writer.Write<uint64_t>(facts.size());
  for (const auto& [key, value] : facts) {
    writer.WriteText(key);
    std::visit(writer, value);
  }
  for (const GgufTensor& tensor : tensors) {
    writer.WriteText(tensor.name);
    writer.Write(static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) writer.Write<uint64_t>(*size);
    writer.Write(tensor.type);
    writer.Write<uint64_t>(tensor.begin);
  }
  return std::move(writer).Padded();
}

uint32_t GgufTypeOf(device::DType dtype) {
  switch (dtype) {
    case device::DType::kF32: return 0;
    case device::DType::kF16: return 1;
    case device::DType::kBF16: return 30;
  }
  return 0;
}

std::string GgufTypeName(uint32_t type) {
  const GgufTypeRow* const row = FindGgufType(type);
  return row == nullptr ? absl::StrCat("type ", type) : row->name;
}

int64_t GgufBytes(uint32_t type, int64_t elements) {
  const GgufTypeRow* const row = FindGgufType(type);
  return row == nullptr || elements % row->elements != 0 ? -1 : elements / row->elements * row->bytes;
}

void DequantizeGguf(uint32_t type, const std::byte* data, std::span<float> into) {
  const GgufTypeRow& row = *FindGgufType(type);
  if (type == 0) std::memcpy(into.data(), data, into.size_bytes());
  const auto count = static_cast<int64_t>(into.size());
  for (int64_t i = 0; i < count; i += row.elements, data += row.bytes) {
    float* const at = into.data() + i;
    uint16_t bits;
    std::memcpy(&bits, data, sizeof bits);
    const float scale = Half(data);
    switch (type) {
      case 1: *at = scale; break;
      case 30: *at = device::ToFloat(device::BF16{bits}); break;
      case 2: FromNibbles(data + 2, at, [&](int q) { return scale * static_cast<float>(q - 8); }); break;
      case 3: {
        const float least = Half(data + 2);
        FromNibbles(data + 4, at, [&](int q) { return scale * static_cast<float>(q) + least; });
        break;
      }
      case 8:
        for (int64_t j = 0; j < kGgufBlock; ++j) at[j] = scale * static_cast<float>(static_cast<int8_t>(data[2 + j]));
        break;
      default: return;
    }
  }
}

}  // namespace zerofleet::checkpoint
