// What a data file holds: told from its header, its size and its name, before any of it is taken for tokens.
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

// What is known of a file without reading it whole.
struct FileFacts {
  std::string path;
  int64_t bytes = 0;
  std::string_view head;        // its first min(bytes, kFormatHeadBytes) bytes
  std::string_view index_head;  // the same of X.idx for a file X.bin; empty if there is none
};

enum class Compression : uint8_t { kNone, kGzip, kZstd };

struct TokenFormat {
  std::string name;                              // text, jsonl, tokens_u16 or tokens_u32
  int token_bytes = 1;                           // little-endian, unsigned
  int64_t data_offset = 0;                       // bytes before the first token
  int64_t tokens = 0;                            // of text: its bytes
  Compression compression = Compression::kNone;  // of text
  bool has_index = false;                        // Megatron's

  bool is_text() const { return token_bytes == 1; }
  bool json_lines() const { return name == "jsonl"; }
};

// InvalidArgument if `format` (data.format) is not supported.
absl::Status CheckFormatName(const std::string& format);

// How to read `file` under data.format `format`. DataLoss, saying what the file is and what would be right, for one
// that does not hold such tokens.
absl::StatusOr<TokenFormat> RecogniseFormat(const FileFacts& file, const std::string& format);

// What to say after the fault of a file of tokens, of a format that was named, if its beginning, `head`, is text:
// "; it looks like text, ..."; empty if it is not.
std::string TextHint(std::string_view head);

// The data.format under which a model of this configuration was trained, as far as names tell: with `auto` that of
// data.train's endings; `auto` for a model that was imported, of whose data nothing is known.
std::string TrainedFormat(const v1::DataConfig& trained);

// The data.format under which `file` is read for a model trained on `trained`. DataLoss for text where the model knows
// tokens, and for tokens where it knows text.
absl::StatusOr<std::string> FormatForModel(const FileFacts& file, const v1::DataConfig& trained);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_FORMAT_H_
