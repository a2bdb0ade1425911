// A tiktoken ranks file, which has a token's bytes in base64 and its rank on each line. The file has neither the rule
// that splits a text into words nor the special tokens: they follow from its encoding.
#ifndef ZEROFLEET_WORKER_TEXT_TIKTOKEN_H_
#define ZEROFLEET_WORKER_TEXT_TIKTOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/scanners.h"

namespace zerofleet::text {

struct TiktokenRanks {
  std::string encoding;             // gpt2, cl100k_base, o200k_base or llama3
  std::vector<std::string> tokens;  // indexed by rank, in the alphabet of byte_level.h
  std::vector<std::pair<std::string, int32_t>> special;
  Scanner scanner = nullptr;
};

// Whether `contents` begins like such a file.
bool IsTiktoken(std::string_view contents);

// The encoding is recognised by the number of ranks, or else by `name`, the file's name. InvalidArgument for a
// malformed line, for ranks that are not 0, 1, 2 and so on, and for an unknown encoding.
absl::StatusOr<TiktokenRanks> ParseTiktoken(std::string_view contents, std::string_view name);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_TIKTOKEN_H_
