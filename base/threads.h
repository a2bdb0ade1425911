// Work that several threads share.
#ifndef ZEROFLEET_BASE_THREADS_H_
#define ZEROFLEET_BASE_THREADS_H_

#include <functional>

namespace zerofleet {

// Calls `work` from up to `threads` threads at the same time, this one among them, and returns when all have returned.
// If no more threads can be created, those that exist do the work. Throws the first exception that one of them has
// thrown, once all are done.
void RunOnThreads(int threads, const std::function<void()>& work);

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_THREADS_H_
