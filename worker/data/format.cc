// Headers, endings and first bytes; see format.h.
//
// llm.c: a header of 256 int32, which begins with a magic number, a version and the number of tokens; then the tokens.
#include "worker/data/format.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/data/megatron_index.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::data {
namespace {

constexpr char kText[] = "text", kAuto[] = "auto";

struct Row {
  const char* name;
  int token_bytes;
  std::vector<const char*> endings;  // under `auto`; any other ending is text
};

const std::vector<Row>& Rows() {
  static const auto* const rows = new std::vector<Row>{{kText, 1, {}},
                                                       {"jsonl", 1, {".jsonl", ".ndjson"}},
                                                       {"tokens_u16", 2, {".bin", ".u16"}},
                                                       {"tokens_u32", 4, {".u32"}}};
  return *rows;
}

const Row& RowOfWidth(int token_bytes) {
  return *std::find_if(Rows().begin(), Rows().end(), [&](const Row& row) { return row.token_bytes == token_bytes; });
}

// Ignores the ending of a compressed file.
const Row& RowOfEnding(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  for (const Row& row : Rows()) {
    for (const char* ending : row.endings) {
      if (path.ends_with(ending)) return row;
    }
  }
  return Rows().front();
}

absl::Status Refused(const FileFacts& file, const std::string& why) {
  return absl::DataLossError(absl::StrCat(file.path, ": ", why));
}

template <typename T>
T Little(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// --- llm.c

constexpr int64_t kLlmcHeaderBytes = 1024;
constexpr uint32_t kLlmcEvaluationMagic = 20240522;

struct LlmcVersion {
  uint32_t magic, version;
  int token_bytes;
};
constexpr LlmcVersion kLlmcVersions[] = {{20240520, 1, 2}, {20240801, 7, 4}};

bool HasLlmcMagic(std::string_view head) {
  if (head.size() < 8) return false;
  const auto magic = Little<uint32_t>(head, 0), version = Little<uint32_t>(head, 4);
  // Tokens without a header could begin with the magic number, but hardly with a small version after it.
  constexpr uint32_t kLargestVersion = 255;
  return version <= kLargestVersion &&
         (magic == kLlmcEvaluationMagic || std::any_of(std::begin(kLlmcVersions), std::end(kLlmcVersions),
                                                       [&](const LlmcVersion& known) { return magic == known.magic; }));
}

absl::StatusOr<TokenFormat> RecogniseLlmc(const FileFacts& file, const std::string& format) {
  const auto magic = Little<uint32_t>(file.head, 0), version = Little<uint32_t>(file.head, 4);
  if (magic == kLlmcEvaluationMagic) {
    return Refused(file,
                   "an llm.c evaluation file (multiple-choice examples), not a stream of tokens; "
                   "use the .bin files that llm.c trains on");
  }
  for (const LlmcVersion& known : kLlmcVersions) {
    if (magic != known.magic || version != known.version) continue;
    const Row& row = RowOfWidth(known.token_bytes);
    if (format != kAuto && format != row.name) {
      return Refused(file, absl::StrCat("an llm.c file of ", 8 * known.token_bytes,
                                        "-bit tokens; data.format must be auto or ", row.name, ", got ", format));
    }
    const int64_t tokens = file.head.size() < 12 ? 0 : Little<uint32_t>(file.head, 8);
    const int64_t expected = kLlmcHeaderBytes + tokens * known.token_bytes;
    if (file.bytes != expected) {
      return Refused(file, absl::StrCat("an llm.c file whose header declares ", tokens, " tokens, so ", expected,
                                        " bytes, but it has ", file.bytes, " bytes; copy or convert it again"));
    }
    return TokenFormat{row.name, known.token_bytes, kLlmcHeaderBytes, tokens};
  }
  return Refused(file, absl::StrCat("an llm.c file of version ", version,
                                    ", which is not supported; supported are 1 (GPT-2, uint16) and 7 (Llama 3, "
                                    "uint32)"));
}

// --- Megatron

// Checks the .bin of a Megatron pair, whose tokens have the type that the index says.
absl::Status CheckMegatronBin(const FileFacts& file, const std::string& format) {
  const int token_bytes = MegatronTokenBytes(file.index_head);
  if (token_bytes == 0) {
    return Refused(file,
                   "a Megatron data set (its index is the .idx file of the same name) of a token type that is "
                   "not supported; convert it to bare uint16 or uint32 tokens");
  }
  const Row& row = RowOfWidth(token_bytes);
  if (format == kAuto || format == row.name) return absl::OkStatus();
  return Refused(file,
                 absl::StrCat("a Megatron data set (its index is the .idx file of the same name) of ", 8 * token_bytes,
                              "-bit tokens; data.format must be auto or ", row.name, ", got ", format));
}

// --- Everything else

struct Foreign {
  std::string_view magic;
  const char* what;
  const char* advice;
};

// Magic numbers that are too long to be the first ids of a token file.
constexpr Foreign kNeverTokens[] = {
    {"\x93NUMPY", "a NumPy array", "write its elements with ndarray.tofile() as uint16 or uint32"},
    {"ARROW1", "an Arrow file", "tokenize it and write uint16 or uint32 tokens"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file", "write its tokens as uint16 or uint32"},
    {"SQLite format 3", "a SQLite database", "write its text or tokens to a file"},
};
constexpr char kParquetAdvice[] =
    "convert it, as by python3 -c \"import pandas, sys; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], "
    "orient='records', lines=True)\" FILE.parquet FILE.jsonl";
// Beginnings that are not text, although a file of tokens may begin with them.
constexpr Foreign kNeverText[] = {
    {"\xfd"
     "7zXZ",
     "xz-compressed", "decompress it"},
    {"BZh", "bzip2-compressed", "decompress it"},
    {"PK\x03\x04", "a zip archive (or a PyTorch or .npz file)", "extract its text or tokens"},
    {"PAR1", "a Parquet file", kParquetAdvice},
    {"\xff\xfe", "UTF-16 text", "convert it to UTF-8"},
    {"\xfe\xff", "UTF-16 text", "convert it to UTF-8"},
};

constexpr std::string_view kGzipMagic = "\x1f\x8b", kZstdMagic = "\x28\xb5\x2f\xfd";

Compression CompressionOf(std::string_view head) {
  if (head.starts_with(kGzipMagic)) return Compression::kGzip;
  return head.starts_with(kZstdMagic) ? Compression::kZstd : Compression::kNone;
}

template <size_t kCount>
absl::Status CheckNot(const Foreign (&foreign)[kCount], const FileFacts& file) {
  for (const Foreign& one : foreign) {
    if (file.head.substr(0, one.magic.size()) == one.magic) {
      return Refused(file, absl::StrCat(one.what, ", not text or tokens; ", one.advice));
    }
  }
  return absl::OkStatus();
}

// Whether `c` is a control character other than white space, form feed, backspace and escape, which occur in text.
bool IsBinary(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 && (byte < 8 || byte > 13) && byte != 0x1b;
}

// Checks only that each lead byte is followed by as many bytes as it announces; a character cut off by the end counts
// as valid.
bool IsUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0) return false;
    for (size_t i = at + 1; i < std::min(at + length, text.size()); ++i) {
      if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return false;
    }
    at += length;
  }
  return true;
}

// Decides only for more than a few bytes: two ids may look like four letters.
bool LooksLikeText(std::string_view head) {
  constexpr size_t kFewest = 32;
  return head.size() >= kFewest && std::none_of(head.begin(), head.end(), IsBinary) && IsUtf8(head);
}

// Whether 16-bit tokens are the halves of 32-bit tokens: every second one is next to zero, and the others are not.
bool LooksLikeU32(std::string_view head) {
  constexpr size_t kFewest = 64;
  constexpr uint16_t kLargestHighHalf = 3;  // a vocabulary of 262144
  if (head.size() < 4 * kFewest) return false;
  size_t large = 0;
  for (size_t at = 0; at + 4 <= head.size(); at += 4) {
    if (Little<uint16_t>(head, at + 2) > kLargestHighHalf) return false;
    large += Little<uint16_t>(head, at) > kLargestHighHalf;
  }
  return large > head.size() / 8;
}

absl::Status CheckAuto(const FileFacts& file, const Row& row) {
  if (row.token_bytes == 1) {
    ZF_RETURN_IF_ERROR(CheckNot(kNeverText, file));
    if (CompressionOf(file.head) != Compression::kNone) return absl::OkStatus();
    if (std::find(file.head.begin(), file.head.end(), '\0') != file.head.end()) {
      return Refused(file,
                     "contains NUL bytes, so it is not text; set data.format to tokens_u16 or tokens_u32 if it "
                     "holds tokens, or to text to train on its bytes");
    }
    return absl::OkStatus();
  }
  if (absl::EndsWith(file.path, ".gz") || absl::EndsWith(file.path, ".zst")) {
    return Refused(file, "a compressed file of tokens, which cannot be read in any order; decompress it");
  }
  if (LooksLikeText(file.head)) {
    return Refused(file, absl::StrCat("looks like text, though its name ends as a token file's; set data.format to "
                                      "text, or to ",
                                      row.name, " if these are tokens"));
  }
  if (row.token_bytes == 2 && LooksLikeU32(file.head)) {
    return Refused(file,
                   "looks like 32-bit tokens (every second 16-bit word is almost 0); set data.format to "
                   "tokens_u32, or to tokens_u16 if these are 16-bit tokens");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFormatName(const std::string& format) {
  bool known = format == kAuto;
  for (const Row& row : Rows()) known |= format == row.name;
  if (known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.format: '", format, "' is not supported; must be auto, text, jsonl, tokens_u16 or tokens_u32"));
}

std::string TextHint(std::string_view head) {
  return LooksLikeText(head) ? "; it looks like text: set data.format to text if it is" : "";
}

absl::StatusOr<TokenFormat> RecogniseFormat(const FileFacts& file, const std::string& format) {
  ZF_RETURN_IF_ERROR(CheckFormatName(format));
  const Compression compression = CompressionOf(file.head);
  if (format == kText) return TokenFormat{kText, 1, 0, file.bytes, compression};
  if (IsMegatronIndex(file.head)) {
    return Refused(file, "a Megatron index, which holds no tokens; name the .bin file of the same name");
  }
  if (HasLlmcMagic(file.head)) return RecogniseLlmc(file, format);
  ZF_RETURN_IF_ERROR(CheckNot(kNeverTokens, file));
  const bool has_index = IsMegatronIndex(file.index_head);
  if (has_index) ZF_RETURN_IF_ERROR(CheckMegatronBin(file, format));
  const auto named = std::find_if(Rows().begin(), Rows().end(), [&](const Row& row) { return format == row.name; });
  const Row& row = has_index               ? RowOfWidth(MegatronTokenBytes(file.index_head))
                   : named == Rows().end() ? RowOfEnding(file.path)
                                           : *named;
  if (format == kAuto && !has_index) ZF_RETURN_IF_ERROR(CheckAuto(file, row));
  if (row.token_bytes == 1) return TokenFormat{row.name, 1, 0, file.bytes, compression};
  if (file.bytes % row.token_bytes != 0) {
    return Refused(file, absl::StrCat(file.bytes, " bytes are not a whole number of ", row.token_bytes,
                                      "-byte tokens (", row.name, ")", TextHint(file.head)));
  }
  return TokenFormat{row.name, row.token_bytes, 0, file.bytes / row.token_bytes, Compression::kNone, has_index};
}

std::string TrainedFormat(const v1::DataConfig& trained) {
  const auto named =
      std::find_if(Rows().begin(), Rows().end(), [&](const Row& row) { return trained.format() == row.name; });
  if (named != Rows().end()) return named->token_bytes == 1 ? kText : named->name;
  if (trained.train().empty()) return kAuto;
  for (const std::string& path : trained.train()) {
    const Row& row = RowOfEnding(path);
    if (row.token_bytes > 1) return row.name;
  }
  return kText;
}

absl::StatusOr<std::string> FormatForModel(const FileFacts& file, const v1::DataConfig& trained) {
  const std::string model = TrainedFormat(trained);
  if (model == kAuto) return model;
  const bool has_header = HasLlmcMagic(file.head) || IsMegatronIndex(file.head);
  const bool token_name = RowOfEnding(file.path).token_bytes > 1;
  // With a tokenizer, text and token files may hold the same ids.
  const bool has_tokenizer = !trained.tokenizer().empty() && trained.tokenizer() != text::kBytes;
  if (has_tokenizer && (model == kText ? has_header || token_name : LooksLikeText(file.head))) {
    return std::string(kAuto);
  }
  if (model == kText) {
    // `text` with one token per byte means any file; with `auto` a token file's name says what it is.
    if (has_header || (trained.format() == kAuto && token_name)) {
      return Refused(file, "holds tokens, but the model was trained on text; give it a text file");
    }
    return trained.format() == kText ? kText : kAuto;
  }
  if (has_header) return std::string(kAuto);
  if (LooksLikeText(file.head)) {
    return Refused(file, absl::StrCat("is text, but the model was trained on tokens (", model,
                                      "); tokenize it as the training data was"));
  }
  // A .bin has tokens of either width: where the run's format was named, that says it.
  const bool of_either_width = absl::EndsWith(file.path, ".bin") && trained.format() != kAuto;
  return token_name && !of_either_width ? RowOfEnding(file.path).name : model;
}

}  // namespace zerofleet::data
