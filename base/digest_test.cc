// Digests agree in one piece and in many, and with the published value of the empty input.
#include "base/digest.h"

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(Digest, EmptyInputHasThePublishedValue) { EXPECT_EQ(Digest128(""), "99aa06d3014798d86001c324468d497f"); }

TEST(Digest, ItsSpellingIsKnown) {
  const std::string digest = Digest128("text");
  EXPECT_TRUE(IsDigest(digest));
  for (const std::string& other :
       {std::string(), digest.substr(1), digest + "0", 'A' + digest.substr(1), ' ' + digest.substr(1)}) {
    EXPECT_FALSE(IsDigest(other)) << other;
  }
}

TEST(Digest, PiecesDoNotMatter) {
  std::string text(100000, 'x');
  text[77777] = 'y';
  StreamingDigest digest;
  for (size_t at = 0; at < text.size(); at += 333) {
    digest.Update(std::as_bytes(std::span(text).subspan(at, std::min<size_t>(333, text.size() - at))));
  }
  EXPECT_EQ(digest.Hex(), Digest128(text));
  text[5] = 'z';
  EXPECT_NE(digest.Hex(), Digest128(text));
}

}  // namespace
}  // namespace zerofleet
