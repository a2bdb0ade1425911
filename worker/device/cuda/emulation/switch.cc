// See switch.h.
#include "worker/device/cuda/emulation/switch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "base/check.h"

#if defined(ZF_FIBERS_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(ZF_FIBERS_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// Pushes the registers that a call must preserve, saves the stack pointer in *rdi, and continues at rsi.
extern "C" void zf_fiber_jump(void** save_stack_pointer, void* stack_pointer);
asm(R"(
.text
.globl zf_fiber_jump
.hidden zf_fiber_jump
.type zf_fiber_jump, @function
zf_fiber_jump:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size zf_fiber_jump, .-zf_fiber_jump
)");
#endif

namespace zerofleet::device::cuda::emulation {
namespace {

// A kernel's frame is small; under ASan it is a few times larger. Only pages that are touched take memory.
constexpr size_t kStackBytes = size_t{256} << 10;

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Context::Context() {
#if defined(ZF_FIBERS_THREAD_SANITIZER)
  sanitizer_fiber_ = __tsan_get_current_fiber();
#endif
}

Context::~Context() {
  if (mapping_ == nullptr) return;
#if defined(ZF_FIBERS_THREAD_SANITIZER)
  __tsan_destroy_fiber(sanitizer_fiber_);
#endif
  munmap(mapping_, kStackBytes + PageBytes());
}

void Context::Start(void (*entry)()) {
  mapping_ = mmap(nullptr, kStackBytes + PageBytes(), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ZF_CHECK(mapping_ != MAP_FAILED);
  ZF_CHECK(mprotect(mapping_, PageBytes(), PROT_NONE) == 0);
  char* const bottom = static_cast<char*>(mapping_) + PageBytes();
  bottom_ = bottom;
  bytes_ = kStackBytes;
#if defined(ZF_FIBERS_THREAD_SANITIZER)
  sanitizer_fiber_ = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
  // What zf_fiber_jump pops: six registers and the return address. On entry a function expects the stack pointer 8
  // bytes past a multiple of 16; the zero above the return address ends a debugger's backtrace.
  uintptr_t* const top = reinterpret_cast<uintptr_t*>(bottom + kStackBytes);
  top[-1] = 0;
  top[-2] = reinterpret_cast<uintptr_t>(entry);
  for (int i = 3; i <= 8; ++i) top[-i] = 0;
  stack_pointer_ = top - 8;
#else
  getcontext(&registers_);
  registers_.uc_stack.ss_sp = bottom;
  registers_.uc_stack.ss_size = kStackBytes;
  registers_.uc_link = nullptr;
  makecontext(&registers_, entry, 0);
#endif
}

void Context::TellBefore([[maybe_unused]] Context& to, [[maybe_unused]] bool leaving) {
#if defined(ZF_FIBERS_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(leaving ? nullptr : &fake_stack_, to.bottom_, to.bytes_);
#endif
#if defined(ZF_FIBERS_THREAD_SANITIZER)
  __tsan_switch_to_fiber(to.sanitizer_fiber_, 0);
#endif
}

void Context::Jump(Context& to) {
#if defined(__x86_64__)
  zf_fiber_jump(&stack_pointer_, to.stack_pointer_);
#else
  swapcontext(&registers_, &to.registers_);
#endif
}

void Context::Entered([[maybe_unused]] Context& from) {
#if defined(ZF_FIBERS_ADDRESS_SANITIZER)
  // This tells a thread's own context where its stack is.
  __sanitizer_finish_switch_fiber(nullptr, &from.bottom_, &from.bytes_);
#endif
}

void Context::Change(Context& from, Context& to) {
  from.TellBefore(to, false);
  from.Jump(to);
#if defined(ZF_FIBERS_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
}

void Context::Leave(Context& from, Context& to) {
  from.TellBefore(to, true);
  from.Jump(to);
  std::abort();  // nothing switches back
}

}  // namespace zerofleet::device::cuda::emulation
