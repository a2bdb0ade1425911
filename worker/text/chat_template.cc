// Where templates are found, and which variables they get; see chat_template.h.
#include "worker/text/chat_template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "proto/json_parse.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::text {
namespace {

constexpr int64_t kLargestConfig = int64_t{16} << 20;
constexpr const char* kTemplateKey = "chat_template";
constexpr const char* kSpecialKeys[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                        "sep_token", "cls_token", "mask_token"};

// The template named `default` among several, or the only one.
absl::StatusOr<std::string> SourceIn(const nlohmann::json& config) {
  if (!config.is_object() || !config.contains(kTemplateKey)) return std::string();
  const nlohmann::json& given = config[kTemplateKey];
  if (given.is_string()) return given.get<std::string>();
  if (given.is_array()) {
    for (const nlohmann::json& named : given) {
      if (!named.is_object() || !named.contains("name") || !named.contains("template")) continue;
      if (named["name"] == "default" && named["template"].is_string()) return named["template"].get<std::string>();
    }
  }
  return absl::InvalidArgumentError("chat_template: is neither a text nor a list with one named default");
}

jinja::Value::Dict SpecialsIn(const nlohmann::json& config) {
  jinja::Value::Dict specials;
  for (const char* key : kSpecialKeys) {
    if (!config.is_object() || !config.contains(key)) continue;
    const nlohmann::json& given = config[key];
    const nlohmann::json content = given.is_object() && given.contains("content") ? given["content"] : given;
    if (content.is_string()) specials.emplace_back(key, jinja::Value::Of(content.get<std::string>()));
  }
  return specials;
}

absl::StatusOr<std::string> ReadIfThere(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
  if (!there) return std::string();
  return ReadSmallFile(path, kLargestConfig);
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Load(const std::string& tokenizer) {
  if (tokenizer == kBytes) return absl::NotFoundError("a tokenizer of bytes has no chat template");
  const std::string folder = ParentOf(TokenizerPath(tokenizer));
  ZF_ASSIGN_OR_RETURN(const std::string source, ReadIfThere(JoinPath(folder, kChatTemplateFile)));
  ZF_ASSIGN_OR_RETURN(const std::string config, ReadIfThere(JoinPath(folder, kTokenizerConfigFile)));
  absl::StatusOr<ChatTemplate> chat = Parse(source, config);
  if (chat.ok() || absl::IsNotFound(chat.status())) {
    return chat.ok() ? std::move(chat) : absl::NotFoundError(absl::StrCat(folder, ": ", chat.status().message()));
  }
  return Annotate(chat.status(), JoinPath(folder, source.empty() ? kTokenizerConfigFile : kChatTemplateFile));
}

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string_view config) {
  nlohmann::json settings;
  if (!config.empty()) {
    ZF_ASSIGN_OR_RETURN(settings, ParseJson(config));
  }
  std::string text(source);
  if (text.empty()) {
    ZF_ASSIGN_OR_RETURN(text, SourceIn(settings));
  }
  if (text.empty()) return absl::NotFoundError("the tokenizer has no chat template");
  absl::StatusOr<jinja::Template> body = jinja::Template::Parse(text);
  if (!body.ok()) return Annotate(body.status(), kTemplateKey);
  std::string made_of = text;
  for (const char* key : kSpecialKeys) {
    if (settings.is_object() && settings.contains(key)) absl::StrAppend(&made_of, "\n", key, settings[key].dump());
  }
  return ChatTemplate(std::move(body).value(), SpecialsIn(settings), Digest128(made_of));
}

absl::StatusOr<std::string> ChatTemplate::Render(const nlohmann::ordered_json& messages, bool answer,
                                                 std::time_t now) const {
  jinja::Value::Dict variables = specials_;
  variables.emplace_back("messages", jinja::Value::Of(messages));
  variables.emplace_back("add_generation_prompt", jinja::Value::Of(answer));
  variables.emplace_back("tools", jinja::Value::MakeNone());
  variables.emplace_back("documents", jinja::Value::MakeNone());
  const absl::StatusOr<std::string> text = template_.Render(variables, now);
  return text.ok() ? text : Annotate(text.status(), kTemplateKey);
}

std::string ChatTemplate::EndOfAnswer(std::time_t now) const {
  const std::string mark = "zerofleet";
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "?"}},
                                           {{"role", "assistant"}, {"content", mark}}};
  const absl::StatusOr<std::string> text = Render(messages, /*answer=*/false, now);
  const size_t at = text.ok() ? text->rfind(mark) : std::string::npos;
  return at == std::string::npos ? "" : text->substr(at + mark.size());
}

}  // namespace zerofleet::text
