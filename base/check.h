// Checks of what only this program can cause. A failed check prints one line and aborts.
//
// One condition per check; use a Status for anything a peer, a file or a person can cause.
#ifndef ZEROFLEET_BASE_CHECK_H_
#define ZEROFLEET_BASE_CHECK_H_

namespace zerofleet {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace zerofleet

#define ZF_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::zerofleet::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // ZEROFLEET_BASE_CHECK_H_
