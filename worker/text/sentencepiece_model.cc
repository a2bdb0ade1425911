// The wire format of protocol buffers: keys, varints, lengths; see sentencepiece_model.h.
//
// Field numbers are those of sentencepiece_model.proto.
#include "worker/text/sentencepiece_model.h"

#include <cstring>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::text {
namespace {

constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes64 = 2, kFixed32 = 5;

struct WireField {
  uint64_t number, type;
  uint64_t value;          // a varint, or the bits of a fixed-size field
  std::string_view bytes;  // a field with a length
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }

  // Reads the next field; false if it is malformed.
  bool Next(WireField& field) {
    uint64_t key = 0;
    if (!Varint(key)) return false;
    field = {key >> 3, key & 7, 0, {}};
    switch (field.type) {
      case kVarint: return Varint(field.value);
      case kFixed64: return Fixed(sizeof(uint64_t), field.value);
      case kFixed32: return Fixed(sizeof(uint32_t), field.value);
      case kBytes64: {
        uint64_t length = 0;
        if (!Varint(length) || length > rest_.size()) return false;
        field.bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return true;
      }
      default: return false;
    }
  }

 private:
  bool Varint(uint64_t& value) {
    constexpr int kMostShift = 63;
    value = 0;
    for (int shift = 0; shift <= kMostShift; shift += 7) {
      if (rest_.empty()) return false;
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Fixed(size_t bytes, uint64_t& value) {
    if (rest_.size() < bytes) return false;
    std::memcpy(&value, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return true;
  }

  std::string_view rest_;
};

bool ForEachField(std::string_view bytes, const std::function<bool(const WireField&)>& take) {
  WireReader reader(bytes);
  for (WireField field; !reader.done();) {
    if (!reader.Next(field) || !take(field)) return false;
  }
  return true;
}

bool ReadPiece(std::string_view bytes, SentencePieceModel::Piece& piece) {
  return ForEachField(bytes, [&](const WireField& field) {
    if (field.number == 1 && field.type == kBytes64) piece.text = std::string(field.bytes);
    if (field.number == 2 && field.type == kFixed32) std::memcpy(&piece.score, &field.value, sizeof piece.score);
    if (field.number == 3 && field.type == kVarint) piece.type = static_cast<int32_t>(field.value);
    return true;
  });
}

bool ReadTrainer(std::string_view bytes, SentencePieceModel& model) {
  return ForEachField(bytes, [&](const WireField& field) {
    if (field.number == 44 && field.type == kBytes64) model.unknown_surface = std::string(field.bytes);
    if (field.type != kVarint) return true;
    switch (field.number) {
      case 3: model.algorithm = static_cast<int32_t>(field.value); break;
      case 24: model.space_as_suffix = field.value != 0; break;
      case 35: model.byte_fallback = field.value != 0; break;
      case 41: model.bos_id = static_cast<int32_t>(field.value); break;
      case 42: model.eos_id = static_cast<int32_t>(field.value); break;
      default: break;
    }
    return true;
  });
}

bool ReadNormalizer(std::string_view bytes, SentencePieceModel& model) {
  return ForEachField(bytes, [&](const WireField& field) {
    if (field.number == 2 && field.type == kBytes64) model.charsmap = std::string(field.bytes);
    if (field.type != kVarint) return true;
    switch (field.number) {
      case 3: model.add_dummy_prefix = field.value != 0; break;
      case 4: model.remove_extra_whitespaces = field.value != 0; break;
      case 5: model.escape_whitespaces = field.value != 0; break;
      default: break;
    }
    return true;
  });
}

bool HasCharsmap(std::string_view bytes) {
  bool found = false;
  ForEachField(bytes, [&](const WireField& field) {
    found = found || (field.number == 2 && field.type == kBytes64 && !field.bytes.empty());
    return true;
  });
  return found;
}

}  // namespace

// The first field is a piece: a message, which has fewer than 128 bytes in every known file.
bool IsSentencePiece(std::string_view contents) {
  return contents.size() > 2 && contents[0] == '\x0a' && contents[2] == '\x0a';
}

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(std::string_view contents) {
  SentencePieceModel model;
  const bool read = ForEachField(contents, [&](const WireField& field) {
    if (field.type != kBytes64) return true;
    switch (field.number) {
      case 1: return ReadPiece(field.bytes, model.pieces.emplace_back());
      case 2: return ReadTrainer(field.bytes, model);
      case 3: return ReadNormalizer(field.bytes, model);
      case 5: model.has_denormalizer = HasCharsmap(field.bytes); return true;
      default: return true;
    }
  });
  if (!read) return absl::InvalidArgumentError("is no sentencepiece model, or is damaged");
  if (model.pieces.empty()) return absl::InvalidArgumentError("a sentencepiece model without pieces");
  return model;
}

}  // namespace zerofleet::text
