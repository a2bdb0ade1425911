// The configuration's names for what other training tools name differently.
//
// People bring the names they know: from PyTorch, Hugging Face's Trainer, DeepSpeed, Megatron-LM, nanoGPT, torchtitan.
// Such a name is looked up by its meaning; only unknown words are compared by spelling.
#ifndef ZEROFLEET_CLI_CONFIG_KEY_WORDS_H_
#define ZEROFLEET_CLI_CONFIG_KEY_WORDS_H_

#include <span>
#include <string>
#include <string_view>

namespace zerofleet::cli {

struct KeyWord {
  const char* word;    // as other tools spell it: lower case, underscores
  const char* key;     // the key with that meaning; empty if there is none
  const char* remark;  // how word and key differ, or why there is no key; may be empty
};

std::span<const KeyWord> KeyWords();

// The row of `name`, null if it is not a known word. Case and leading dashes are ignored, and dashes match underscores.
const KeyWord* FindKeyWord(std::string_view name);

// "use optimizer.learning_rate", with the remark in parentheses; or the remark alone.
std::string KeyWordAdvice(const KeyWord& word);

// Our value for what other tools call `value`: "gpu" -> "cuda", "bfloat16" -> "bf16"; empty if it is not a known word.
std::string_view ValueMeant(std::string_view value);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_KEY_WORDS_H_
