// Abseil's Mutex, CondVar and Notification over pthreads, for ThreadSanitizer builds alone.
//
// Debian's Abseil is built without ThreadSanitizer, which then sees no order between two threads' actions under an
// absl::Mutex and reports every such pair as a race. This file defines the same functions in the test binary, where the
// dynamic linker finds them first: for our code, and for gRPC's, which locks through them too. ThreadSanitizer knows
// the pthread calls. Reader locks are exclusive here: a write under a reader lock is for clang's thread-safety analysis
// to find. zf_test links this file into every test of a thread-sanitizer build.
#include <errno.h>
#include <pthread.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

// One word of Abseil's object holds the pointer to a Lockable, which is made at the first use, since a Mutex may be
// constant-initialised.
struct Lockable {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t state_changed = PTHREAD_COND_INITIALIZER;
};

template <typename T>
T& Made(std::atomic<intptr_t>& word) {
  intptr_t found = word.load(std::memory_order_acquire);
  if (found == 0) {
    T* fresh = new T{};
    if (word.compare_exchange_strong(found, reinterpret_cast<intptr_t>(fresh), std::memory_order_acq_rel))
      return *fresh;
    delete fresh;
  }
  return *reinterpret_cast<T*>(found);
}

// False once the deadline has passed.
bool WaitOn(pthread_cond_t& condition, pthread_mutex_t& mutex, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) {
    pthread_cond_wait(&condition, &mutex);
    return true;
  }
  const timespec until = absl::ToTimespec(deadline);
  return pthread_cond_timedwait(&condition, &mutex, &until) != ETIMEDOUT;
}

}  // namespace

Mutex::~Mutex() {
  // gRPC orders the last unlock before this by a reference count in its uninstrumented code, which ThreadSanitizer does
  // not see.
  __tsan_acquire(this);
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
  auto* lockable = reinterpret_cast<Lockable*>(mu_.load(std::memory_order_acquire));
  if (lockable == nullptr) return;
  pthread_cond_destroy(&lockable->state_changed);
  pthread_mutex_destroy(&lockable->mutex);
  delete lockable;
}

void Mutex::Lock() { pthread_mutex_lock(&Made<Lockable>(mu_).mutex); }
bool Mutex::TryLock() { return pthread_mutex_trylock(&Made<Lockable>(mu_).mutex) == 0; }
void Mutex::Unlock() {
  // Threads that await a condition check it again; it is not known whether the state changed, so every unlock wakes
  // them.
  Lockable& lockable = Made<Lockable>(mu_);
  pthread_cond_broadcast(&lockable.state_changed);
  __tsan_release(this);
  pthread_mutex_unlock(&lockable.mutex);
}
void Mutex::ReaderLock() { Lock(); }
bool Mutex::ReaderTryLock() { return TryLock(); }
void Mutex::ReaderUnlock() { Unlock(); }

// A pthread mutex cannot say which thread holds it; the release and ASan builds check these.
void Mutex::AssertHeld() const {}
void Mutex::AssertReaderHeld() const {}
void Mutex::AssertNotHeld() const {}
void Mutex::ForgetDeadlockInfo() {}

bool Mutex::AwaitWithDeadline(const Condition& condition, absl::Time deadline) {
  Lockable& lockable = Made<Lockable>(mu_);
  pthread_cond_broadcast(&lockable.state_changed);
  bool in_time = true;
  while (!condition.Eval()) {
    if (!in_time) return false;
    in_time = WaitOn(lockable.state_changed, lockable.mutex, deadline);
  }
  return true;
}
void Mutex::Await(const Condition& condition) { AwaitWithDeadline(condition, absl::InfiniteFuture()); }
bool Mutex::AwaitWithTimeout(const Condition& condition, absl::Duration timeout) {
  return AwaitWithDeadline(condition, absl::Now() + timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, absl::Time deadline) {
  Lock();
  return AwaitWithDeadline(condition, deadline);
}
void Mutex::LockWhen(const Condition& condition) { LockWhenWithDeadline(condition, absl::InfiniteFuture()); }
bool Mutex::LockWhenWithTimeout(const Condition& condition, absl::Duration timeout) {
  return LockWhenWithDeadline(condition, absl::Now() + timeout);
}
void Mutex::ReaderLockWhen(const Condition& condition) { LockWhen(condition); }
bool Mutex::ReaderLockWhenWithDeadline(const Condition& condition, absl::Time deadline) {
  return LockWhenWithDeadline(condition, deadline);
}
bool Mutex::ReaderLockWhenWithTimeout(const Condition& condition, absl::Duration timeout) {
  return LockWhenWithTimeout(condition, timeout);
}

CondVar::~CondVar() { delete reinterpret_cast<pthread_cond_t*>(cv_.load(std::memory_order_acquire)); }
void CondVar::Signal() { SignalAll(); }
void CondVar::SignalAll() { pthread_cond_broadcast(&Made<pthread_cond_t>(cv_)); }
// True once the deadline has passed, as in Abseil.
bool CondVar::WaitWithDeadline(Mutex* mutex, absl::Time deadline) {
  Lockable& lockable = Made<Lockable>(mutex->mu_);
  pthread_cond_broadcast(&lockable.state_changed);
  return !WaitOn(Made<pthread_cond_t>(cv_), lockable.mutex, deadline);
}
void CondVar::Wait(Mutex* mutex) { WaitWithDeadline(mutex, absl::InfiniteFuture()); }
bool CondVar::WaitWithTimeout(Mutex* mutex, absl::Duration timeout) {
  return WaitWithDeadline(mutex, absl::Now() + timeout);
}

Notification::~Notification() { MutexLock lock(&mutex_); }
void Notification::Notify() {
  MutexLock lock(&mutex_);
  notified_yet_.store(true, std::memory_order_release);
}
bool Notification::WaitForNotificationWithDeadline(absl::Time deadline) const {
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(Condition(&HasBeenNotifiedInternal, &notified_yet_), deadline);
}
void Notification::WaitForNotification() const { WaitForNotificationWithDeadline(absl::InfiniteFuture()); }
bool Notification::WaitForNotificationWithTimeout(absl::Duration timeout) const {
  return WaitForNotificationWithDeadline(absl::Now() + timeout);
}

ABSL_NAMESPACE_END
}  // namespace absl
