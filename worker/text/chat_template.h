// A tokenizer's chat template: messages as the text that its model was trained on.
#ifndef ZEROFLEET_WORKER_TEXT_CHAT_TEMPLATE_H_
#define ZEROFLEET_WORKER_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/json.h"
#include "worker/text/jinja_run.h"

namespace zerofleet::text {

// The file of a template beside the tokenizer's, where it is not in tokenizer_config.json.
inline constexpr char kChatTemplateFile[] = "chat_template.jinja";

class ChatTemplate {
 public:
  // The template of `tokenizer`, a value of data.tokenizer. NotFound if it has none; other errors name the file, and
  // the line of a template that is not supported.
  static absl::StatusOr<ChatTemplate> Load(const std::string& tokenizer);
  // The same of the files' contents; `source` may be empty.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, std::string_view config);

  // `messages`: a list of objects with `role` and `content`, and what else the template reads. `answer`: with the
  // beginning of the assistant's answer behind them. Errors name the line of the template.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& messages, bool answer, std::time_t now) const;

  // Which template it is: a digest of what makes it.
  const std::string& digest() const { return digest_; }

  // What stands behind an answer of the assistant; empty if that cannot be told.
  std::string EndOfAnswer(std::time_t now) const;

 private:
  ChatTemplate(jinja::Template body, jinja::Value::Dict specials, std::string digest)
      : template_(std::move(body)), specials_(std::move(specials)), digest_(std::move(digest)) {}

  jinja::Template template_;
  jinja::Value::Dict specials_;  // bos_token and others of its config
  std::string digest_;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_CHAT_TEMPLATE_H_
