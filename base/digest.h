// 128-bit digests (XXH3) of text and byte streams: equality across processes and integrity of files, not security.
#ifndef ZEROFLEET_BASE_DIGEST_H_
#define ZEROFLEET_BASE_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace zerofleet {

// A digest is spelt as 32 lower-case hexadecimal digits.
inline constexpr size_t kDigestDigits = 32;
std::string Digest128(std::string_view text);
bool IsDigest(std::string_view text);

// A digest as two numbers; the digests of equal bytes are equal.
struct DigestBits {
  uint64_t high = 0, low = 0;
  bool operator==(const DigestBits&) const = default;
};

// The digest of bytes that arrive in pieces: the same as of all of them at once.
class StreamingDigest {
 public:
  StreamingDigest();
  ~StreamingDigest();
  void Update(std::span<const std::byte> bytes);
  std::string Hex() const;
  DigestBits Bits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_DIGEST_H_
