// The words of ASCII text, found 64 characters at a time: each class of characters becomes a number with a bit per
// character, and where words begin follows from such numbers, without a branch for a character or a word.
//
// One function for each family of expressions in scanners.cc, whose comments state them. They know less than the
// scanners there, which must find whatever is left to them, and against which they are tested.
#ifndef ZEROFLEET_WORKER_TEXT_ASCII_BLOCKS_H_
#define ZEROFLEET_WORKER_TEXT_ASCII_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zerofleet::text {

// For `at` inside `text`, where a word begins: the places of the words that follow it in the 64 bytes from there on, as
// bits; bit 0 is not set. Every word before the last of them is whole. A block ends before the first character that is
// not ASCII or is a control character other than white space, and none begins where the rest of it decides.
using BlockScanner = uint64_t (*)(std::string_view text, size_t at);

uint64_t Gpt2Block(std::string_view text, size_t at);
uint64_t Cl100kBlock(std::string_view text, size_t at);
uint64_t QwenBlock(std::string_view text, size_t at);
uint64_t O200kBlock(std::string_view text, size_t at);
uint64_t DeepSeekBlock(std::string_view text, size_t at);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_ASCII_BLOCKS_H_
