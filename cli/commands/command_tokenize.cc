// `zerofleet tokenize`: text to a file of token ids.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/directory_lock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/launcher/stop_signals.h"
#include "cli/report/text_progress.h"
#include "worker/data/text_tokens.h"
#include "worker/data/token_file.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::cli {
namespace {

constexpr char kOwnEnd[] = "the tokenizer's own";
constexpr char kOutputLock[] = ".lock";

struct TokenizeFlags {
  std::string tokenizer, output, end_token;
  std::vector<std::string> inputs;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

// The files to tokenize: those that are named, and the files in directories that are named.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (!IsDirectory(input)) {
      files.push_back(input);
      continue;
    }
    ZF_ASSIGN_OR_RETURN(const std::vector<std::string> in_it, data::DataFilesIn(input));
    files.insert(files.end(), in_it.begin(), in_it.end());
  }
  if (files.empty()) return absl::NotFoundError("INPUT: there is no file in these directories");
  return files;
}

absl::StatusOr<std::optional<int32_t>> EndToken(const std::string& flag, const text::Tokenizer& tokenizer) {
  if (flag.empty()) return std::optional<int32_t>();
  if (flag == "none") return std::optional<int32_t>(data::kNoEndToken);
  int32_t id = -1;
  const std::from_chars_result read = std::from_chars(flag.data(), flag.data() + flag.size(), id);
  if (read.ec == std::errc() && read.ptr == flag.data() + flag.size() && id >= 0 && id < tokenizer.vocab()) return id;
  return absl::InvalidArgumentError(
      absl::StrCat("--end-token: must be none or an id from 0 to ", tokenizer.vocab() - 1, ", got ", flag));
}

absl::Status OutputIsThere(const std::string& path, const std::string& more = "") {
  return absl::InvalidArgumentError(absl::StrCat("--output: ", path, " is there already and is not overwritten", more));
}

std::string PartsOf(const std::string& path) { return absl::StrCat(path, ".parts"); }

// Removes the folder of parts of an output that is there, which a run leaves if it is killed between completing the one
// and removing the other. False if there is none, or a run is using it.
bool RemoveLeftParts(const std::string& path) {
  const std::string parts = PartsOf(path);
  if (!FileExists(JoinPath(parts, kOutputLock))) return false;
  const absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = DirectoryLock::Acquire(parts, kOutputLock);
  return lock.ok() && RemoveTree(parts).ok();
}

absl::Status CheckOutput(const std::string& path, int token_bytes) {
  ZF_ASSIGN_OR_RETURN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kFile && RemoveLeftParts(path)) {
    return OutputIsThere(path, absl::StrCat("; removed ", PartsOf(path), ", which an earlier run had left"));
  }
  if (kind != PathKind::kNothing) return OutputIsThere(path);
  for (const char* const ending : {".txt", ".json", ".jsonl", ".ndjson", ".gz", ".zst"}) {
    if (!absl::EndsWithIgnoreCase(path, ending)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--output: ", path, ": token ids are no *", ending, "; name it *.u", 8 * token_bytes));
  }
  const char* const other = token_bytes == 2 ? ".u32" : ".u16";
  if (!absl::EndsWith(path, other)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--output: ", path, ": the ids of this tokenizer take ",
                                                 8 * token_bytes, " bits; name it *.u", 8 * token_bytes));
}

// Makes the only file's tokens the whole output: renames them and cuts off what follows them.
absl::Status Become(const data::TextTokens& tokens, const std::string& path, const std::function<bool()>& cancelled) {
  if (tokens.found) {
    ZF_RETURN_IF_ERROR(data::VerifyTokens(*tokens.file, tokens.format, tokens.digest, cancelled));
  }
  ZF_RETURN_IF_ERROR(Rename(tokens.file->path(), path));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<DurableFile> out,
                      DurableFile::CutOff(path, tokens.format.tokens * tokens.format.token_bytes));
  return out->Sync();
}

// Appends the tokens of a file that has been tokenized.
absl::Status Append(const data::TextTokens& tokens, DurableFile& out) {
  constexpr int64_t kChunk = int64_t{4} << 20;
  std::vector<std::byte> buffer(kChunk);
  const int64_t bytes = tokens.format.tokens * tokens.format.token_bytes;
  StreamingDigest found;
  for (int64_t at = 0; at < bytes; at += kChunk) {
    const std::span<std::byte> chunk = std::span(buffer).first(static_cast<size_t>(std::min(kChunk, bytes - at)));
    ZF_RETURN_IF_ERROR(tokens.file->Read(at, chunk));
    found.Update(chunk);
    ZF_RETURN_IF_ERROR(out.Write(chunk));
  }
  return found.Bits() == tokens.digest ? absl::OkStatus() : data::DamagedTokens(*tokens.file);
}

// Writes the tokens of all files one after another.
absl::Status Join(const std::vector<data::TextTokens>& all, const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<DurableFile> out, DurableFile::Create(path));
  for (const data::TextTokens& tokens : all) ZF_RETURN_IF_ERROR(Append(tokens, *out));
  return out->Sync();
}

// Takes the lock in `parts`, so that one process at a time writes `path`.
absl::StatusOr<std::unique_ptr<DirectoryLock>> LockOutput(const std::string& path, const std::string& parts) {
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = DirectoryLock::Acquire(parts, kOutputLock);
  if (!absl::IsAlreadyExists(lock.status())) return lock;
  return absl::FailedPreconditionError(
      absl::StrCat("--output: ", path, ": another run is writing it; wait for its end, or name another file"));
}

struct Totals {
  int64_t documents = 0, tokens = 0, text_bytes = 0;
};

// Each file's tokens are kept next to the output until it is complete, so that a second attempt reuses those of the
// first.
absl::StatusOr<Totals> TokenizeInto(const std::vector<std::string>& files, const std::string& path,
                                    std::unique_ptr<text::Tokenizer> loaded, const std::string& name,
                                    data::TextOptions options) {
  const std::string parts = options.directory, temporary = absl::StrCat(path, ".part");
  const std::function<bool()> cancelled = options.cancelled;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock, LockOutput(path, parts));
  const absl::Cleanup tidy = [&] {  // removes `parts` if no file was completed
    const absl::StatusOr<std::vector<std::string>> left = ListDirectory(parts);
    if (left.ok() && *left == std::vector<std::string>{kOutputLock}) RemoveTree(parts).IgnoreError();
  };
  ZF_ASSIGN_OR_RETURN(const PathKind made, KindOf(path));  // another process may have made it while it held the lock
  if (made != PathKind::kNothing) return OutputIsThere(path);
  v1::DataConfig config;
  config.set_tokenizer(name);
  config.set_tokenizer_digest(loaded->digest());
  data::TextTokenizer tokenizer(config, std::move(options), std::move(loaded));
  std::vector<data::TextTokens> all;
  Totals totals;
  for (const std::string& file : files) {
    ZF_ASSIGN_OR_RETURN(const std::unique_ptr<data::TokenFile> text, data::TokenFile::Open(file, /*keep_open=*/false));
    ZF_ASSIGN_OR_RETURN(const data::TokenFormat format,
                        data::RecogniseFormat({file, text->bytes(), text->head(), ""}, "auto"));
    if (!format.is_text()) {
      return absl::DataLossError(absl::StrCat(file, ": holds tokens already, or is named as if it did"));
    }
    ZF_ASSIGN_OR_RETURN(data::TextTokens tokens, tokenizer.Open(*text, format));
    totals.documents += tokens.documents;
    totals.tokens += tokens.format.tokens;
    totals.text_bytes += tokens.text_bytes;
    all.push_back(std::move(tokens));
  }
  if (totals.tokens == 0) {
    ZF_RETURN_IF_ERROR(RemoveTree(parts));
    return absl::DataLossError(files.size() == 1 ? absl::StrCat(files.front(), ": there is no text in it")
                                                 : "INPUT: there is no text in these files");
  }
  ZF_ASSIGN_OR_RETURN(const PathKind left, KindOf(temporary));
  if (left == PathKind::kFile) ZF_RETURN_IF_ERROR(RemoveOne(temporary));
  absl::Cleanup remove = [&] { RemoveOne(temporary).IgnoreError(); };
  ZF_RETURN_IF_ERROR(all.size() == 1 ? Become(all.front(), temporary, cancelled) : Join(all, temporary));
  const absl::Status renamed = RenameFile(temporary, path);
  if (absl::IsAlreadyExists(renamed)) return OutputIsThere(path);
  ZF_RETURN_IF_ERROR(renamed);
  ZF_RETURN_IF_ERROR(SyncDirectory(ParentOf(path)));
  ZF_RETURN_IF_ERROR(RemoveTree(parts));
  return totals;
}

absl::StatusOr<int> RunTokenize(const TokenizeFlags& flags, const Output& output) {
  absl::StatusOr<std::unique_ptr<text::Tokenizer>> tokenizer = text::Tokenizer::Load(flags.tokenizer);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), "--tokenizer");
  ZF_ASSIGN_OR_RETURN(const std::optional<int32_t> end_token, EndToken(flags.end_token, **tokenizer));
  const int token_bytes = data::TokenBytes((*tokenizer)->vocab());
  ZF_RETURN_IF_ERROR(CheckOutput(flags.output, token_bytes));
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(flags.inputs));
  StopSignals signals;
  TextProgress progress(output.err, output.err_terminal, Clock::Real());
  data::TextOptions options;
  options.directory = PartsOf(flags.output);
  options.threads = flags.threads;
  options.progress = [&](const std::string& path, double part) { progress.Show(path, part); };
  options.cancelled = [&] { return signals.First() != 0; };
  options.end_token = end_token;
  const double start = Clock::Real().MonotonicSeconds();
  const absl::StatusOr<Totals> totals =
      TokenizeInto(files, flags.output, *std::move(tokenizer), flags.tokenizer, std::move(options));
  if (absl::IsCancelled(totals.status())) {
    const std::string parts = PartsOf(flags.output);
    return StoppedBySignal(signals.First(), IsDirectory(parts)
                                                ? absl::StrCat("stopped; the same command goes on from ", parts)
                                                : "stopped");
  }
  if (!totals.ok()) return totals.status();
  const double seconds = std::max(Clock::Real().MonotonicSeconds() - start, 1e-9);
  output.out << absl::StrFormat(
      "wrote %s: tokens_u%d, %s, %s, %.2f bytes per token, %s, %.1f MB/s\n", flags.output, 8 * token_bytes,
      CountText(totals->documents, "document"), CountText(totals->tokens, "token"),
      static_cast<double>(totals->text_bytes) / static_cast<double>(std::max<int64_t>(totals->tokens, 1)),
      HumanSeconds(seconds), static_cast<double>(totals->text_bytes) / seconds / 1e6);
  return 0;
}

}  // namespace

void AddTokenizeCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "Turn text and JSON lines into a file of token ids.");
  command->add_option("--tokenizer", flags->tokenizer, "A tokenizer.json, or a folder that holds one; or bytes")
      ->type_name("PATH")
      ->required();
  command->add_option("--output", flags->output, "The file to write; *.bin and *.u16 are of 16 bits, *.u32 of 32")
      ->type_name("FILE")
      ->check(InDirectory())
      ->required();
  command->add_option("--end-token", flags->end_token, "Put behind each document: an id, or none")
      ->type_name("ID|none")
      ->default_str(kOwnEnd);
  command->add_option("--threads", flags->threads, "Compute threads")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
  command
      ->add_option(
          "INPUT", flags->inputs,
          "Files, or directories of files: text, or *.jsonl with a \"text\" in each line; also as *.gz and *.zst")
      ->type_name("PATH")
      ->required();
  command->footer(
      "Example:\n  zerofleet tokenize --tokenizer gpt2/tokenizer.json --output train.bin books stories.jsonl.gz");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunTokenize(*flags, output); }; });
}

}  // namespace zerofleet::cli
