// Checks of flags' values that the parser does not make itself; each is given to an option's check(). And how often one
// is given.
#ifndef ZEROFLEET_CLI_COMMANDS_FLAG_CHECKS_H_
#define ZEROFLEET_CLI_COMMANDS_FLAG_CHECKS_H_

#include "CLI/CLI.hpp"

namespace zerofleet::cli {

// A name that goes to terminals, pages and the labels of metrics: at most 200 bytes of UTF-8 without control
// characters.
CLI::Validator PlainName();

// A whole number from 0 to 2^64-1, in digits alone. The parser takes -1, and every number that is too large, for
// 2^64-1.
CLI::Validator WholeNumber();

// A path whose directory is there: what is to be written is not put where a slip of the pen makes directories for it.
CLI::Validator InDirectory();

// A number from `least` to `most`. The parser's own range tells of 1e-9 as 0.000000, and takes nan.
CLI::Validator NumberFrom(double least, double most);

// For a flag of a list: given several times, with one value each time. By itself the parser takes every word up to the
// next flag, the positional arguments among them.
CLI::Option* Repeatable(CLI::Option* option);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_FLAG_CHECKS_H_
