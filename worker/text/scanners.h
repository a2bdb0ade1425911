// Hand-written scanners for the expressions by which common tokenizers split: they find what libonig finds, in a few
// nanoseconds per byte.
//
// Classes of characters are read from libonig, so that its Unicode (14.0 in Debian's 6.9.8) is the one version here;
// scanners_test.cc compares the two. To add an expression, add its row in scanners.cc.
#ifndef ZEROFLEET_WORKER_TEXT_SCANNERS_H_
#define ZEROFLEET_WORKER_TEXT_SCANNERS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace zerofleet::text {

// Writes the ends of the words from `at` on, where one begins in `text`, which is UTF-8: as many as there are, or as
// `ends` has room for. Returns their number. Words follow one another without gaps.
using Scanner = size_t (*)(std::string_view text, size_t at, std::span<size_t> ends);

// Named after OpenAI's encodings. At the end of a text tiktoken takes white space as one word, where the cl100k of a
// tokenizer.json ends words at newlines.
size_t ScanGpt2(std::string_view text, size_t at, std::span<size_t> ends);
size_t ScanCl100k(std::string_view text, size_t at, std::span<size_t> ends);
size_t ScanTiktokenCl100k(std::string_view text, size_t at, std::span<size_t> ends);
size_t ScanO200k(std::string_view text, size_t at, std::span<size_t> ends);

// The scanner of expressions that are applied one after another, each to the parts that the one before it has left;
// null if there is none. GPT-2's expression, those of cl100k (Llama 3), Qwen and o200k (gpt-oss), and DeepSeek V3's
// three have one.
Scanner ScannerOf(std::span<const std::string> expressions);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_SCANNERS_H_
