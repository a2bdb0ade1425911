// Blocks, which are read in order, encoded by all threads, and passed on in order; see tokenize.h.
#include "worker/data/tokenize.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/threads.h"
#include "base/units.h"
#include "proto/json_parse.h"
#include "worker/data/text_reader.h"

namespace zerofleet::data {
namespace {

constexpr size_t kBlockBytes = 256 * 1024, kBlocksPerThread = 8;
// A text that is encoded in one piece, because it is one line or cannot be cut, takes some twenty times its size in
// memory.
constexpr size_t kLongestLine = size_t{64} << 20, kLongestUncut = size_t{256} << 20;
constexpr char kTextKey[] = "text", kPromptKey[] = "prompt", kCompletionKey[] = "completion";
constexpr char kMessagesKey[] = "messages", kRoleKey[] = "role", kAssistant[] = "assistant";
// The date that templates take for today, so that a file has the same tokens on every day: 26 July 2024, which Llama
// 3's templates print where they are given no date. Templates print local time, so this is noon here.
std::time_t DayOfChats() {
  static const std::time_t noon = [] {
    std::tm day = {};
    day.tm_year = 2024 - 1900;
    day.tm_mon = 6;
    day.tm_mday = 26;
    day.tm_hour = 12;
    day.tm_isdst = -1;
    return std::mktime(&day);
  }();
  return noon;
}

bool HasRole(const nlohmann::ordered_json& message) {
  return message.is_object() && message.contains(kRoleKey) && message[kRoleKey].is_string();
}

// A chat's text, and which parts of it are answers.
struct ChatText {
  std::string text;
  struct Answer {
    size_t begin, end;
  };
  std::vector<Answer> answers;
};

// An answer begins where the template, given the messages before it, has printed the beginning of an answer, and ends
// with the answer's own end.
absl::StatusOr<ChatText> RenderChat(const text::ChatTemplate& chat, const nlohmann::ordered_json& messages) {
  ChatText result;
  ZF_ASSIGN_OR_RETURN(result.text, chat.Render(messages, /*answer=*/false, DayOfChats()));
  nlohmann::ordered_json before = nlohmann::ordered_json::array();
  for (const nlohmann::ordered_json& message : messages) {
    const bool is_answer = message[kRoleKey] == kAssistant;
    std::string prompt;
    if (is_answer) {
      ZF_ASSIGN_OR_RETURN(prompt, chat.Render(before, /*answer=*/true, DayOfChats()));
    }
    before.push_back(message);
    if (!is_answer) continue;
    ZF_ASSIGN_OR_RETURN(const std::string whole, chat.Render(before, /*answer=*/false, DayOfChats()));
    const size_t end_before = result.answers.empty() ? 0 : result.answers.back().end;
    const bool apart = result.text.starts_with(whole) && whole.starts_with(prompt) && prompt.size() >= end_before;
    if (!apart) {
      return absl::DataLossError(
          "the chat template changes what stands before an answer, so that its tokens cannot be told apart");
    }
    result.answers.push_back({prompt.size(), whole.size()});
  }
  return result;
}

struct Block {
  std::string text;
  int64_t first_line = 1;
  bool ends_document = false;  // for text only

  std::vector<int32_t> ids;
  int64_t documents = 0, text_bytes = 0;
  int64_t consumed = 0;  // bytes of the file, up to this block's end
  absl::Status status;
};

// Cuts a file into blocks that can be encoded separately.
class BlockReader {
 public:
  BlockReader(const TokenFile& file, const TokenFormat& format, const text::Tokenizer& tokenizer)
      : file_(file),
        json_lines_(format.json_lines()),
        tokenizer_(tokenizer),
        reader_(TextReader::Open(file, format.compression)) {}

  bool done() const { return done_; }

  absl::StatusOr<Block> Next() {
    Block block;
    block.first_line = line_;
    size_t cut = 0;
    for (size_t wanted = kBlockBytes; cut == 0 && !done_; wanted *= 2) {
      ZF_RETURN_IF_ERROR(Fill(wanted));
      cut = done_ ? pending_.size() : Cut();
      if (cut == 0 && !done_ && pending_.size() >= Longest()) return TooLong();
    }
    block.text = pending_.substr(0, cut);
    pending_.erase(0, cut);
    block.ends_document = done_ && (began_ || !block.text.empty());
    began_ = true;
    if (json_lines_) line_ += std::count(block.text.begin(), block.text.end(), '\n');
    block.consumed = reader_->consumed();
    return block;
  }

 private:
  absl::Status Fill(size_t bytes) {
    const size_t before = pending_.size();
    if (before >= bytes) return absl::OkStatus();
    pending_.resize(bytes);
    ZF_ASSIGN_OR_RETURN(const size_t got, reader_->Read(std::span(pending_).subspan(before)));
    pending_.resize(before + got);
    done_ = before + got < bytes;
    return absl::OkStatus();
  }

  size_t Cut() const { return json_lines_ ? pending_.rfind('\n') + 1 : tokenizer_.LastCut(pending_); }
  size_t Longest() const { return json_lines_ ? kLongestLine : kLongestUncut; }

  absl::Status TooLong() const {
    const std::string longest = HumanBytes(static_cast<int64_t>(Longest()));
    if (json_lines_) {
      return absl::DataLossError(absl::StrCat(file_.path(), ": line ", line_, " is longer than ", longest));
    }
    return absl::DataLossError(absl::StrCat(file_.path(), ": a text of more than ", longest,
                                            " cannot be encoded in parts by this tokenizer; divide the file, or give "
                                            "its documents as JSON lines"));
  }

  const TokenFile& file_;
  const bool json_lines_;
  const text::Tokenizer& tokenizer_;
  const std::unique_ptr<TextReader> reader_;
  std::string pending_;
  int64_t line_ = 1;
  bool began_ = false, done_ = false;
};

class Encoder {
 public:
  Encoder(const TokenFile& file, const TokenFormat& format, const text::Tokenizer& tokenizer,
          const TokenizeOptions& options)
      : file_(file), json_lines_(format.json_lines()), tokenizer_(tokenizer), options_(options) {}

  // Called from any thread, each with its own block.
  void Encode(Block& block) const { block.status = json_lines_ ? EncodeLines(block) : EncodeText(block); }

 private:
  absl::Status EncodeText(Block& block) const {
    ZF_RETURN_IF_ERROR(Annotate(Append(block.text, block), file_.path()));
    if (block.ends_document) End(block);
    return absl::OkStatus();
  }

  absl::Status EncodeLines(Block& block) const {
    std::string_view rest = block.text;
    for (int64_t number = block.first_line; !rest.empty(); ++number) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (absl::StripAsciiWhitespace(absl::string_view(line.data(), line.size())).empty()) continue;
      absl::Status encoded = EncodeLine(line, block);
      if (encoded.ok()) continue;
      return absl::DataLossError(absl::StrCat(file_.path(), ": line ", number, ": ", encoded.message()));
    }
    return absl::OkStatus();
  }

  absl::Status EncodeLine(std::string_view line, Block& block) const {
    ZF_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(line));
    const bool is_chat = document.is_object() && document.contains(kMessagesKey) && !document.contains(kTextKey);
    // Templates may print a message's parts, such as a tool's arguments, with their keys as they were written.
    if (is_chat) return EncodeChat(nlohmann::ordered_json::parse(line)[kMessagesKey], block);
    if (options_.answers) return EncodeAnswer(document, block);
    if (!document.is_object()) return absl::DataLossError("must be an object, such as {\"text\": \"...\"}");
    const auto text = document.find(kTextKey);
    if (text == document.end() || !text->is_string()) return absl::DataLossError("has no \"text\" that is a string");
    ZF_RETURN_IF_ERROR(Append(text->get_ref<const std::string&>(), block));
    End(block);
    return absl::OkStatus();
  }

  // Prompt and completion are encoded separately, so that counting begins exactly where the completion does.
  absl::Status EncodeAnswer(const nlohmann::json& document, Block& block) const {
    for (const char* key : {kPromptKey, kCompletionKey}) {
      if (document.is_object() && document.contains(key) && document[key].is_string()) continue;
      return absl::DataLossError(
          absl::StrCat("has no \"", key, "\" that is a string, nor \"messages\"; data.loss_on: assistant needs them"));
    }
    ZF_RETURN_IF_ERROR(AppendUncounted(document[kPromptKey].get_ref<const std::string&>(), block));
    ZF_RETURN_IF_ERROR(Append(document[kCompletionKey].get_ref<const std::string&>(), block));
    End(block);
    return absl::OkStatus();
  }

  absl::Status EncodeChat(const nlohmann::ordered_json& messages, Block& block) const {
    if (options_.chat == nullptr) {
      return absl::DataLossError("has \"messages\", and the tokenizer has no chat template");
    }
    const bool is_list = messages.is_array() && !messages.empty();
    if (!is_list || !std::all_of(messages.begin(), messages.end(), HasRole)) {
      return absl::DataLossError("\"messages\" must be a list of objects that have a \"role\" each");
    }
    if (!options_.answers) {
      ZF_ASSIGN_OR_RETURN(const std::string text, options_.chat->Render(messages, /*answer=*/false, DayOfChats()));
      ZF_RETURN_IF_ERROR(Append(text, block));
      EndChat(block);
      return absl::OkStatus();
    }
    ZF_ASSIGN_OR_RETURN(const ChatText chat, RenderChat(*options_.chat, messages));
    const std::string_view text = chat.text;
    size_t at = 0;
    for (const ChatText::Answer& answer : chat.answers) {
      ZF_RETURN_IF_ERROR(AppendUncounted(text.substr(at, answer.begin - at), block));
      ZF_RETURN_IF_ERROR(Append(text.substr(answer.begin, answer.end - answer.begin), block));
      at = answer.end;
    }
    ZF_RETURN_IF_ERROR(AppendUncounted(text.substr(at), block));
    EndChat(block);
    return absl::OkStatus();
  }

  absl::Status AppendUncounted(std::string_view text, Block& block) const {
    const size_t begin = block.ids.size();
    ZF_RETURN_IF_ERROR(Append(text, block));
    for (size_t i = begin; i < block.ids.size(); ++i) block.ids[i] |= kUncounted;
    return absl::OkStatus();
  }

  absl::Status Append(std::string_view text, Block& block) const {
    ZF_RETURN_IF_ERROR(tokenizer_.EncodeTo(text, /*special=*/false, block.ids));
    block.text_bytes += static_cast<int64_t>(text.size());
    return absl::OkStatus();
  }

  void End(Block& block) const {
    ++block.documents;
    if (options_.end_token) block.ids.push_back(*options_.end_token | (options_.marks ? kEndsDocument : 0));
  }

  // Ends a chat's document. The template has already ended the last message, so the token behind the document, which
  // packing needs, does not count.
  void EndChat(Block& block) const {
    End(block);
    if (options_.end_token && options_.marks) block.ids.back() |= kUncounted;
  }

  const TokenFile& file_;
  const bool json_lines_;
  const text::Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
};

// Blocks on their way. Each thread takes the next block of the file and encodes it; the thread that called Tokenize
// also passes the blocks on, in order, whenever it has encoded one. So files are read and ids written beside the
// encoding.
class Conveyor {
 public:
  Conveyor(BlockReader& reader, const Encoder& encoder, const TokenizeOptions& options, const TokenSink& sink)
      : reader_(reader),
        encoder_(encoder),
        options_(options),
        sink_(sink),
        encoded_(kBlocksPerThread * static_cast<size_t>(std::max(1, options.threads))) {}

  // The work of each thread; returns when nothing is left to do for it. An exception, for want of memory, ends the
  // others' work too.
  void Run() {
    try {
      EncodeAndPassOn();
    } catch (...) {
      Stop(absl::ResourceExhaustedError("a thread that encodes text has failed"));
      throw;
    }
  }

  absl::StatusOr<TokenizeCounts> Counts() const {
    ZF_RETURN_IF_ERROR(status_);
    return counts_;
  }

 private:
  absl::Status Cancelled() const {
    if (!options_.cancelled || !options_.cancelled()) return absl::OkStatus();
    return absl::CancelledError("stopped while text was tokenized");
  }
  bool HasRoom() const { return taken_ - passed_ < encoded_.size(); }

  void EncodeAndPassOn() {
    const bool passes_on = std::this_thread::get_id() == caller_;
    while (EncodeNext(/*waits=*/!passes_on) || passes_on) {
      if (passes_on && !PassOnEncoded()) return;
    }
  }

  // Takes a block and encodes it. False if there is none, or no room for it, for which a thread may wait.
  bool EncodeNext(bool waits) {
    if (absl::Status cancelled = Cancelled(); !cancelled.ok()) Stop(std::move(cancelled));
    std::unique_lock lock(mutex_);
    if (waits) changed_.wait(lock, [this] { return stopped_ || HasRoom(); });
    if (stopped_ || ended_ || !HasRoom()) return false;
    const size_t number = taken_++;
    absl::StatusOr<Block> block = reader_.Next();
    ended_ = !block.ok() || reader_.done();
    lock.unlock();
    Block encoded;
    if (block.ok()) {
      encoded = *std::move(block);
      encoder_.Encode(encoded);
    } else {
      encoded.status = block.status();
    }
    lock.lock();
    encoded_[number % encoded_.size()] = std::move(encoded);
    changed_.notify_all();
    return true;
  }

  // Passes on the blocks that are next in order and encoded. While there are others to be encoded it waits for none;
  // false when all have been passed on, or an error has ended the work.
  bool PassOnEncoded() {
    std::unique_lock lock(mutex_);
    if (ended_ || !HasRoom()) {
      changed_.wait(lock, [this] { return stopped_ || taken_ == passed_ || Next().has_value(); });
    }
    while (!stopped_ && Next()) {
      const Block block = *std::exchange(Next(), std::nullopt);
      ++passed_;
      changed_.notify_all();
      lock.unlock();
      if (absl::Status status = PassOn(block); !status.ok()) Stop(std::move(status));
      lock.lock();
    }
    return !stopped_ && !(ended_ && taken_ == passed_);
  }

  absl::Status PassOn(const Block& block) {
    ZF_RETURN_IF_ERROR(Cancelled());
    ZF_RETURN_IF_ERROR(block.status);
    ZF_RETURN_IF_ERROR(sink_(block.ids));
    counts_.documents += block.documents;
    counts_.tokens += static_cast<int64_t>(block.ids.size());
    counts_.text_bytes += block.text_bytes;
    if (options_.progress) options_.progress(block.consumed);
    return absl::OkStatus();
  }

  std::optional<Block>& Next() { return encoded_[passed_ % encoded_.size()]; }

  void Stop(absl::Status status) {
    const std::lock_guard lock(mutex_);
    if (!stopped_) status_ = std::move(status);
    stopped_ = true;
    changed_.notify_all();
  }

  const std::thread::id caller_ = std::this_thread::get_id();
  BlockReader& reader_;  // under mutex_
  const Encoder& encoder_;
  const TokenizeOptions& options_;
  const TokenSink& sink_;
  TokenizeCounts counts_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<std::optional<Block>> encoded_;  // not passed on yet, by their numbers
  size_t taken_ = 0, passed_ = 0;              // blocks taken from the file, and passed on
  bool ended_ = false, stopped_ = false;       // the file has no more blocks; an error has ended the work
  absl::Status status_;
};

}  // namespace

absl::StatusOr<TokenizeCounts> Tokenize(const TokenFile& file, const TokenFormat& format,
                                        const text::Tokenizer& tokenizer, const TokenizeOptions& options,
                                        const TokenSink& sink) {
  BlockReader reader(file, format, tokenizer);
  const Encoder encoder(file, format, tokenizer, options);
  Conveyor conveyor(reader, encoder, options, sink);
  const bool is_one_block = format.compression == Compression::kNone && file.bytes() <= int64_t{kBlockBytes};
  RunOnThreads(is_one_block ? 1 : options.threads, [&conveyor] { conveyor.Run(); });
  return conveyor.Counts();
}

}  // namespace zerofleet::data
