// What a data file holds: decided from its header, its size and its name, before any of it is read as tokens.
//
// `text` is any file, with the tokenizer `bytes` one token per byte. The other formats, and `auto`, look at the file
// first: an llm.c header is skipped, and a file that holds something else (a Megatron index, a NumPy array, an archive)
// is refused by name. A new format is a row in format.cc's tables; worker/data/README.md lists them.
#ifndef ZEROFLEET_WORKER_DATA_FORMAT_H_
#define ZEROFLEET_WORKER_DATA_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::data {

inline constexpr int64_t kFormatHeadBytes = 4096;

// What is known about a file without reading all of it.
struct FileFacts {
  std::string path;
  int64_t bytes = 0;
  std::string_view head;        // first min(bytes, kFormatHeadBytes) bytes
  std::string_view index_head;  // first bytes of X.idx if the file is X.bin; empty if there is no index
};

enum class Compression : uint8_t { kNone, kGzip, kZstd };

struct TokenFormat {
  std::string name;                              // text, jsonl, tokens_u16 or tokens_u32
  int token_bytes = 1;                           // little-endian, unsigned
  int64_t data_offset = 0;                       // bytes before the first token
  int64_t tokens = 0;                            // for text, its number of bytes
  Compression compression = Compression::kNone;  // for text only
  bool has_index = false;                        // a Megatron index lies beside the file

  bool is_text() const { return token_bytes == 1; }
  bool json_lines() const { return name == "jsonl"; }
};

// InvalidArgument if `format` (data.format) is not supported.
absl::Status CheckFormatName(const std::string& format);

// How to read `file` under data.format `format`. DataLoss, saying what the file is and what would be right, if it does
// not hold such tokens.
absl::StatusOr<TokenFormat> RecogniseFormat(const FileFacts& file, const std::string& format);

// A hint to append to an error about a file of tokens whose format was named, if its beginning, `head`, is text: "; it
// looks like text, ..."; empty if it is not.
std::string TextHint(std::string_view head);

// The data.format under which a model of this configuration was trained, as far as names say: with `auto`, the format
// of data.train's endings; `auto` for an imported model, whose data are unknown.
std::string TrainedFormat(const v1::DataConfig& trained);

// The data.format under which `file` is read for a model trained on `trained`. DataLoss for text if the model was
// trained on tokens, and for tokens if it was trained on text.
absl::StatusOr<std::string> FormatForModel(const FileFacts& file, const v1::DataConfig& trained);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_FORMAT_H_
