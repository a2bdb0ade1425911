// Printable bytes are their own characters, the others are numbered from 256 on in order; see byte_level.h.
#include "worker/text/byte_level.h"

#include <array>
#include <cstdint>

#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

struct ByteAlphabet {
  std::array<std::string, 256> characters;
  std::array<int, 512> bytes;

  ByteAlphabet() {
    bytes.fill(-1);
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const uint32_t code = printable ? byte : next++;
      AppendUtf8(code, characters[byte]);
      bytes[code] = static_cast<int>(byte);
    }
  }
};

const ByteAlphabet& TheByteAlphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

std::string ToByteLevel(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (char byte : bytes) text.append(TheByteAlphabet().characters[static_cast<uint8_t>(byte)]);
  return text;
}

bool FromByteLevel(std::string_view characters, std::string& bytes) {
  const size_t before = bytes.size();
  for (size_t at = 0; at < characters.size();) {
    const Character character = CharacterAt(characters, at);
    at += character.bytes;
    const int byte = character.code < 512 ? TheByteAlphabet().bytes[character.code] : -1;
    if (byte < 0) {
      bytes.resize(before);
      return false;
    }
    bytes.push_back(static_cast<char>(byte));
  }
  return true;
}

}  // namespace zerofleet::text
