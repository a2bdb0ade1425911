// For tests/oracle/check_tokenizers.py: prints the ids of each text in a file of texts, one line each, then as JSON the
// text that they decode to. The file has each text's length, a little-endian u32, and its bytes.
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "proto/json_parse.h"
#include "worker/text/tokenizer.h"

int main(int count, char** arguments) {
  using namespace zerofleet;
  if (count != 3) return 2;
  const auto tokenizer = text::Tokenizer::Load(arguments[1]);
  const auto texts = ReadSmallFile(arguments[2], int64_t{1} << 30);
  if (!tokenizer.ok() || !texts.ok()) {
    std::fprintf(stderr, "%s\n", (tokenizer.ok() ? texts.status() : tokenizer.status()).ToString().c_str());
    return 3;
  }
  for (size_t at = 0; at + 4 <= texts->size();) {
    uint32_t bytes = 0;
    std::memcpy(&bytes, texts->data() + at, 4);
    const auto ids = (*tokenizer)->Encode(std::string_view(*texts).substr(at + 4, bytes), /*special=*/true).value();
    const std::string decoded = (*tokenizer)->Decode(ids, /*special=*/true).value();
    std::printf("%s\n%s\n", absl::StrJoin(ids, " ").c_str(), nlohmann::json(decoded).dump().c_str());
    at += 4 + bytes;
  }
  return 0;
}
