// Makes sure that descriptors 0, 1 and 2 are open.
#ifndef ZEROFLEET_CLI_LAUNCHER_STANDARD_DESCRIPTORS_H_
#define ZEROFLEET_CLI_LAUNCHER_STANDARD_DESCRIPTORS_H_

namespace zerofleet::cli {

// Opens /dev/null as each of standard input, output and error that is closed. Otherwise the next file that is opened
// would get its number, and printed text would end up in a report, a lock or a log. To be called from main before
// anything is opened.
void SecureStandardDescriptors();

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_STANDARD_DESCRIPTORS_H_
