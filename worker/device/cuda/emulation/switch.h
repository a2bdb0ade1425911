// Switching from one stack to another within a thread: what fibers are built on.
//
// Avoids ucontext's swapcontext where possible: it makes a system call each time, to save a signal mask that never
// differs here, and costs a hundred times as much as saving six registers. Kernels that reduce switch millions of
// times.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_SWITCH_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_SWITCH_H_

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ZF_FIBERS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZF_FIBERS_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define ZF_FIBERS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ZF_FIBERS_THREAD_SANITIZER 1
#endif
#endif

namespace zerofleet::device::cuda::emulation {

// A stack, and where to continue on it. The sanitizers are notified of every switch.
class Context {
 public:
  Context();   // for the calling thread's own stack
  ~Context();  // for a fiber: only after its `entry` has called Leave
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Gives this context its own stack, on which the first switch to it calls `entry`, which never returns.
  void Start(void (*entry)());

  // Must be the first call in `entry`; `from` is the context that switched to it.
  static void Entered(Context& from);
  // Continues in `to`; returns when something switches back to `from`.
  static void Change(Context& from, Context& to);
  // Continues in `to` and never returns.
  [[noreturn]] static void Leave(Context& from, Context& to);

 private:
  void TellBefore(Context& to, bool leaving);
  void Jump(Context& to);

#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t registers_;
#endif
  void* mapping_ = nullptr;       // a fiber's stack with a guard page below it; null for a thread's own
  const void* bottom_ = nullptr;  // the usable stack, as ASan expects it
  size_t bytes_ = 0;
  [[maybe_unused]] void* fake_stack_ = nullptr;       // ASan's, for detect_stack_use_after_return
  [[maybe_unused]] void* sanitizer_fiber_ = nullptr;  // TSan's
};

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_SWITCH_H_
