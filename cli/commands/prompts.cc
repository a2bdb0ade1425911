// See prompts.h.
#include "cli/commands/prompts.h"

#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "proto/json_parse.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kLargestPrompts = int64_t{64} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

absl::StatusOr<Prompt> PromptOf(std::string_view line) {
  const absl::Status checked = ParseJson(line).status();
  if (!checked.ok()) return absl::DataLossError(checked.message());
  const auto object = nlohmann::ordered_json::parse(line);  // keeps the order of keys, which templates may print
  if (!object.is_object()) return absl::DataLossError("is not an object");
  if (object.contains("messages") && object["messages"].is_array() && !object["messages"].empty()) {
    return Prompt{"", object["messages"]};
  }
  if (!object.contains("prompt") || !object["prompt"].is_string() || object["prompt"].get<std::string>().empty()) {
    return absl::DataLossError("has neither a prompt, a text, nor messages, a list");
  }
  return Prompt{object["prompt"].get<std::string>(), nullptr};
}

}  // namespace

absl::StatusOr<std::vector<Prompt>> ParsePrompts(std::string_view contents) {
  std::vector<Prompt> prompts;
  bool json = false;
  int64_t number = 0;
  if (contents.starts_with(kByteOrderMark)) contents.remove_prefix(kByteOrderMark.size());
  const std::vector<std::string> lines = absl::StrSplit(std::string(contents), '\n');
  for (std::string line : lines) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    if (prompts.empty()) json = absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "{");
    absl::StatusOr<Prompt> prompt = json ? PromptOf(line) : Prompt{line, nullptr};
    if (!prompt.ok()) return Annotate(prompt.status(), absl::StrCat(number));
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty()) return absl::DataLossError("has no prompt");
  return prompts;
}

absl::StatusOr<std::vector<Prompt>> ReadPrompts(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const std::string contents, ReadSmallFile(path, kLargestPrompts));
  absl::StatusOr<std::vector<Prompt>> prompts = ParsePrompts(contents);
  if (!prompts.ok()) return Annotate(prompts.status(), path);
  return prompts;
}

absl::Status TellFirst(const std::string& system, std::vector<Prompt>& prompts) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    nlohmann::ordered_json& messages = prompts[i].messages;
    if (messages.is_null()) continue;
    for (const nlohmann::ordered_json& message : messages) {
      if (!message.is_object() || message.value("role", nlohmann::ordered_json()) != "system") continue;
      return absl::InvalidArgumentError(
          absl::StrCat("prompt ", i + 1, " has a system message of its own; leave one of the two out"));
    }
    nlohmann::ordered_json told = {{"role", "system"}, {"content", system}};
    messages.insert(messages.begin(), std::move(told));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::cli
