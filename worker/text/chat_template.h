// A tokenizer's chat template, which turns messages into the text format that its model was trained on.
#ifndef ZEROFLEET_WORKER_TEXT_CHAT_TEMPLATE_H_
#define ZEROFLEET_WORKER_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/json.h"
#include "worker/text/jinja_run.h"

namespace zerofleet::text {

// The template's file beside the tokenizer's, if it is not in tokenizer_config.json.
inline constexpr char kChatTemplateFile[] = "chat_template.jinja";

class ChatTemplate {
 public:
  // The template of `tokenizer`, a value of data.tokenizer. NotFound if it has none; other errors name the file, and
  // the line of a template that is not supported.
  static absl::StatusOr<ChatTemplate> Load(const std::string& tokenizer);
  // Makes a template from the files' contents; `source` may be empty.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, std::string_view config);

  // `messages` is a list of objects with `role` and `content`, and whatever else the template reads. With `answer` the
  // text ends with the beginning of the assistant's answer. Errors name the line of the template.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& messages, bool answer, std::time_t now) const;

  // A digest that identifies the template.
  const std::string& digest() const { return digest_; }

  // The text that the template puts behind an answer of the assistant; empty if it cannot be determined.
  std::string EndOfAnswer(std::time_t now) const;

 private:
  ChatTemplate(jinja::Template body, jinja::Value::Dict specials, std::string digest)
      : template_(std::move(body)), specials_(std::move(specials)), digest_(std::move(digest)) {}

  jinja::Template template_;
  jinja::Value::Dict specials_;  // bos_token and others from the config
  std::string digest_;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_CHAT_TEMPLATE_H_
