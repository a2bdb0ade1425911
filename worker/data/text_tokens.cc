// Files of ids with a trailer, under a lock while they are made; see text_tokens.h.
#include "worker/data/text_tokens.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/data/tokenize.h"

namespace zerofleet::data {
namespace {

constexpr size_t kKeyDigits = 32;
constexpr char kAnswers[] = "assistant";
constexpr char kMagic[9] = "ZFTOKENS";

// Ends a file of tokens: a file that was cut short has none, and a renamed one has another key.
struct Trailer {
  char magic[8];
  uint32_t version, token_bytes;
  uint64_t tokens, documents, text_bytes;
  uint64_t digest_high, digest_low;  // digest of the tokens
  char key[kKeyDigits];
};
static_assert(sizeof(Trailer) == 88);
constexpr uint32_t kVersion = 3;

// The tokens in `path`, if the file is there and whole.
std::optional<TextTokens> Find(const std::string& path, const std::string& key, bool marks, bool keep_open) {
  absl::StatusOr<std::unique_ptr<TokenFile>> file = TokenFile::Open(path, keep_open);
  if (!file.ok() || (*file)->bytes() < static_cast<int64_t>(sizeof(Trailer))) return std::nullopt;
  const int64_t data_bytes = (*file)->bytes() - static_cast<int64_t>(sizeof(Trailer));
  constexpr auto kMost = static_cast<uint64_t>(INT64_MAX);
  Trailer trailer;
  if (!(*file)->Read(data_bytes, std::as_writable_bytes(std::span(&trailer, 1))).ok()) return std::nullopt;
  const bool known = std::memcmp(trailer.magic, kMagic, sizeof trailer.magic) == 0 && trailer.version == kVersion &&
                     (trailer.token_bytes == 2 || trailer.token_bytes == 4) &&
                     std::string_view(trailer.key, kKeyDigits) == key &&
                     trailer.tokens == static_cast<uint64_t>(data_bytes) / trailer.token_bytes &&
                     data_bytes % trailer.token_bytes == 0 && trailer.documents <= kMost && trailer.text_bytes <= kMost;
  if (!known) return std::nullopt;
  TextTokens tokens = {*std::move(file),
                       {},
                       static_cast<int64_t>(trailer.documents),
                       static_cast<int64_t>(trailer.text_bytes),
                       marks,
                       {trailer.digest_high, trailer.digest_low}};
  tokens.format.name = trailer.token_bytes == 2 ? "tokens_u16" : "tokens_u32";
  tokens.format.token_bytes = static_cast<int>(trailer.token_bytes);
  tokens.format.tokens = static_cast<int64_t>(trailer.tokens);
  return tokens;
}

using Write = std::function<absl::Status(std::span<const std::byte>)>;

// Passes the tokens of `text`, and their trailer, to `write`.
absl::Status WriteTokens(const TokenFile& text, const TokenFormat& format, const text::Tokenizer& tokenizer,
                         const text::ChatTemplate* chat, const TextOptions& options, bool answers, bool marks,
                         const std::string& key, const Write& write) {
  const int token_bytes = marks ? 4 : TokenBytes(tokenizer.vocab());
  std::vector<uint16_t> narrow;
  StreamingDigest digest;
  const TokenSink sink = [&](std::span<const int32_t> ids) {
    if (token_bytes == 2) narrow.assign(ids.begin(), ids.end());
    const std::span<const std::byte> bytes = token_bytes == 2 ? std::as_bytes(std::span(narrow)) : std::as_bytes(ids);
    digest.Update(bytes);
    return write(bytes);
  };
  TokenizeOptions how = {.threads = options.threads,
                         .end_token = options.end_token ? options.end_token : tokenizer.end_of_text(),
                         .progress = nullptr,
                         .cancelled = options.cancelled,
                         .answers = answers,
                         .marks = marks,
                         .chat = chat};
  if (how.end_token == kNoEndToken) how.end_token.reset();
  if (options.progress) {
    how.progress = [&](int64_t bytes) {
      options.progress(text.path(),
                       static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(text.bytes(), 1)));
    };
  }
  ZF_ASSIGN_OR_RETURN(const TokenizeCounts counts, Tokenize(text, format, tokenizer, how, sink));
  Trailer trailer = {};
  trailer.version = kVersion;
  trailer.token_bytes = static_cast<uint32_t>(token_bytes);
  trailer.tokens = static_cast<uint64_t>(counts.tokens);
  trailer.documents = static_cast<uint64_t>(counts.documents);
  trailer.text_bytes = static_cast<uint64_t>(counts.text_bytes);
  trailer.digest_high = digest.Bits().high;
  trailer.digest_low = digest.Bits().low;
  std::memcpy(trailer.magic, kMagic, sizeof trailer.magic);
  std::memcpy(trailer.key, key.data(), kKeyDigits);
  return write(std::as_bytes(std::span(&trailer, 1)));
}

// Holds a lock on `path` as long as it lives; holds nothing if the file system has no locks.
class MakersLock {
 public:
  static absl::StatusOr<std::unique_ptr<MakersLock>> Take(const std::string& path,
                                                          const std::function<bool()>& cancelled) {
    constexpr absl::Duration kPause = absl::Milliseconds(50);
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      return absl::ResourceExhaustedError(absl::StrCat(path, ": cannot be made: ", std::strerror(errno)));
    }
    std::unique_ptr<MakersLock> lock(new MakersLock(path, descriptor));
    while (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
      if (cancelled && cancelled()) return absl::CancelledError("stopped while another process tokenized text");
      absl::SleepFor(kPause);
    }
    lock->held_ = true;
    return lock;
  }
  ~MakersLock() {
    if (held_) RemoveOne(path_).IgnoreError();  // otherwise it is another process's
    close(descriptor_);
  }
  MakersLock(const MakersLock&) = delete;
  MakersLock& operator=(const MakersLock&) = delete;

 private:
  MakersLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  const std::string path_;
  const int descriptor_;
  bool held_ = false;
};

}  // namespace

absl::Status VerifyTokens(const TokenFile& file, const TokenFormat& format, const DigestBits& digest,
                          const std::function<bool()>& cancelled) {
  constexpr int64_t kAtATime = int64_t{1} << 20;
  const int64_t bytes = format.tokens * format.token_bytes;
  StreamingDigest found;
  std::vector<std::byte> block(std::min(bytes, kAtATime));
  for (int64_t at = 0; at < bytes; at += kAtATime) {
    if (cancelled && cancelled()) return absl::CancelledError("stopped while tokens were read");
    const std::span<std::byte> part = std::span(block).first(std::min(bytes - at, kAtATime));
    ZF_RETURN_IF_ERROR(file.Read(format.data_offset + at, part));
    found.Update(part);
  }
  return found.Bits() == digest ? absl::OkStatus() : DamagedTokens(file);
}

absl::Status DamagedTokens(const TokenFile& file) {
  return absl::DataLossError(
      absl::StrCat(file.path(),
                   ": damaged: these tokens of a text are not those that were written; remove the file: the next start "
                   "makes it anew"));
}

int TokenBytes(int64_t vocab) { return vocab <= int64_t{1} << 16 ? 2 : 4; }

TextTokenizer::TextTokenizer(const v1::DataConfig& config, TextOptions options, std::unique_ptr<text::Tokenizer> loaded)
    : name_(config.tokenizer().empty() ? text::kBytes : config.tokenizer()),
      digest_(config.tokenizer_digest()),
      answers_(config.loss_on() == kAnswers),
      packs_(config.packing()),
      options_(std::move(options)),
      tokenizer_(std::move(loaded)) {}

absl::Status TextTokenizer::Load() {
  if (tokenizer_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<text::Tokenizer>> tokenizer = text::Tokenizer::Load(name_);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), "data.tokenizer");
  if (!digest_.empty() && (*tokenizer)->digest() != digest_) {
    return absl::InvalidArgumentError(absl::StrCat("data.tokenizer: ", name_, " has the digest ",
                                                   (*tokenizer)->digest(), ", the run's tokenizer ", digest_,
                                                   "; every machine needs the same file there"));
  }
  tokenizer_ = *std::move(tokenizer);
  return absl::OkStatus();
}

absl::StatusOr<std::string> TextTokenizer::LoadChat() {
  if (!chat_) {
    absl::StatusOr<text::ChatTemplate> chat = text::ChatTemplate::Load(name_);
    if (absl::IsNotFound(chat.status())) return std::string();
    if (!chat.ok()) return Annotate(chat.status(), "data.tokenizer");
    chat_ = *std::move(chat);
  }
  return chat_->digest();
}

std::string TextTokenizer::Makers() const {
  std::string makers;
  if (!end_setting_.empty()) makers = absl::StrCat("end token ", absl::CHexEscape(end_setting_.substr(0, 60)));
  if (chat_) absl::StrAppend(&makers, makers.empty() ? "" : ", ", "chat template ", chat_->digest());
  return makers;
}

absl::StatusOr<std::optional<int32_t>> TextTokenizer::EndToken() {
  ZF_RETURN_IF_ERROR(Load());
  return tokenizer_->end_of_text();
}

absl::StatusOr<TextTokens> TextTokenizer::Open(const TokenFile& text, const TokenFormat& format) {
  if (answers_ && !format.json_lines()) {
    return absl::DataLossError(absl::StrCat(
        text.path(),
        ": data.loss_on: assistant needs JSON lines of a \"prompt\" and a \"completion\", or of \"messages\""));
  }
  // If the configuration has no digest, it does not say which tokenizer the file must hold.
  if (digest_.empty()) ZF_RETURN_IF_ERROR(Load());
  const std::string& digest = digest_.empty() ? tokenizer_->digest() : digest_;
  std::string chat;  // only JSON lines can be chats
  if (format.json_lines()) {
    ZF_ASSIGN_OR_RETURN(chat, LoadChat());
  }
  end_setting_ = text::EndTokenSetting(name_);
  const bool marks = answers_ || (packs_ && !chat.empty());
  const std::string key = Digest128(absl::StrCat(
      kVersion, " ", text.Contents(), " ", format.name, " ", static_cast<int>(format.compression), " ", digest, " ",
      options_.end_token ? absl::StrCat(*options_.end_token) : absl::StrCat("own", end_setting_),
      answers_ ? " answers" : "", marks ? " marks" : "", chat));
  if (options_.directory.empty()) return MakeInMemory(text, format, marks, key);
  const std::string path = JoinPath(options_.directory, absl::StrCat(key, ".tokens"));
  const bool keep_open = opened_++ < kMostKeptOpen;
  if (std::optional<TextTokens> found = Find(path, key, marks, keep_open)) return *std::move(found);
  ZF_RETURN_IF_ERROR(Load());
  ZF_RETURN_IF_ERROR(CreateDirectories(options_.directory));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<MakersLock> lock,
                      MakersLock::Take(absl::StrCat(path, ".lock"), options_.cancelled));
  if (std::optional<TextTokens> found = Find(path, key, marks, keep_open)) return *std::move(found);
  ZF_RETURN_IF_ERROR(Make(text, format, marks, key, path));
  if (std::optional<TextTokens> made = Find(path, key, marks, keep_open)) {
    made->found = false;
    return *std::move(made);
  }
  return absl::DataLossError(absl::StrCat(path, ": the tokens that were written a moment ago are not there whole"));
}

absl::Status TextTokenizer::Make(const TokenFile& text, const TokenFormat& format, bool marks, const std::string& key,
                                 const std::string& path) {
  char host[256] = {};  // in containers all makers may be process 1
  gethostname(host, sizeof host - 1);
  const std::string temporary = absl::StrCat(path, ".", host, ".", getpid(), ".part");
  RemoveOne(temporary).IgnoreError();
  absl::Cleanup remove = [&] { RemoveOne(temporary).IgnoreError(); };
  const auto cannot = [&](const absl::Status& status) {
    return status.ok() ? status
                       : absl::ResourceExhaustedError(
                             absl::StrCat("the tokens of ", text.path(), " cannot be written: ", status.message()));
  };
  absl::StatusOr<std::unique_ptr<DurableFile>> file = DurableFile::Create(temporary);
  ZF_RETURN_IF_ERROR(cannot(file.status()));
  ZF_RETURN_IF_ERROR(WriteTokens(text, format, *tokenizer_, chat_ ? &*chat_ : nullptr, options_, answers_, marks, key,
                                 [&](std::span<const std::byte> bytes) { return cannot((*file)->Write(bytes)); }));
  ZF_RETURN_IF_ERROR(cannot((*file)->Sync()));
  return cannot(Rename(temporary, path));
}

absl::StatusOr<TextTokens> TextTokenizer::MakeInMemory(const TokenFile& text, const TokenFormat& format, bool marks,
                                                       const std::string& key) {
  ZF_RETURN_IF_ERROR(Load());
  const int descriptor = memfd_create("tokens", MFD_CLOEXEC);
  const auto cannot = [](const char* what) {
    return absl::ResourceExhaustedError(absl::StrCat("tokens: memory cannot be ", what, ": ", std::strerror(errno)));
  };
  if (descriptor < 0) return cannot("had");
  const absl::Cleanup closed = [&] { close(descriptor); };  // the file keeps a descriptor of its own
  const Write write = [&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) return cannot("written");
      bytes = bytes.subspan(static_cast<size_t>(std::max<ssize_t>(written, 0)));
    }
    return absl::OkStatus();
  };
  ZF_RETURN_IF_ERROR(
      WriteTokens(text, format, *tokenizer_, chat_ ? &*chat_ : nullptr, options_, answers_, marks, key, write));
  if (std::optional<TextTokens> found = Find(absl::StrCat("/proc/self/fd/", descriptor), key, marks, true))
    return *std::move(found);
  return absl::InternalError(absl::StrCat(text.path(), ": its tokens cannot be read back from memory"));
}

}  // namespace zerofleet::data
