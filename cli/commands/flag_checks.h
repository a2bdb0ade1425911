// Checks of flags' values that the parser does not have; each is passed to an option's check(). And flags that may be
// repeated.
#ifndef ZEROFLEET_CLI_COMMANDS_FLAG_CHECKS_H_
#define ZEROFLEET_CLI_COMMANDS_FLAG_CHECKS_H_

#include "CLI/CLI.hpp"

namespace zerofleet::cli {

// Accepts a name that is shown on terminals, on pages and in metrics' labels: at most 200 bytes of UTF-8 without
// control characters.
CLI::Validator PlainName();

// Accepts a whole number from 0 to 2^64-1 in digits only. The parser by itself reads -1, and every number that is too
// large, as 2^64-1.
CLI::Validator WholeNumber();

// Accepts a path whose directory exists, so that a typing error does not create directories.
CLI::Validator InDirectory();

// Accepts a number from `least` to `most`. The parser's own range check prints 1e-9 as 0.000000, and accepts nan.
CLI::Validator NumberFrom(double least, double most);

// Makes the flag of a list take one value each time that it is given. By itself the parser takes every word up to the
// next flag as a value, including positional arguments.
CLI::Option* Repeatable(CLI::Option* option);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_FLAG_CHECKS_H_
