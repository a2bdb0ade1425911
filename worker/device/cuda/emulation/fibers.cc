// See fibers.h.
#include "worker/device/cuda/emulation/fibers.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/device/cuda/emulation/switch.h"

namespace zerofleet::device::cuda::emulation {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr unsigned kMostBlocksYZ = 65535;
constexpr size_t kMostSharedBytes = size_t{227} << 10;

ThreadOrder OrderOfEnvironment() {
  const char* const text = std::getenv("ZEROFLEET_EMULATION_ORDER");
  const std::string_view order = text == nullptr ? "forward" : text;
  ZF_CHECK(order == "forward" || order == "backward" || order == "shuffled");
  return order == "backward"   ? ThreadOrder::kBackward
         : order == "shuffled" ? ThreadOrder::kShuffled
                               : ThreadOrder::kForward;
}

// A stack on which threads of the block run, one at a time. A thread that waits midway keeps its stack.
struct Fiber {
  Context context;
  int thread = -1;
  uint64_t result = 0;  // an exchange's
};

// The values that the lanes of a warp have contributed to the exchange in progress.
struct Exchange {
  int arrived = 0, lanes = 0, line = 0;
  std::array<uint64_t, kWarp> values = {};
  std::array<Fiber*, kWarp> fibers = {};
};

enum class Whereabouts : uint8_t { kNotStarted, kRunning, kAtBarrier, kExchanging, kEnded };

// Runs the threads of one block at a time, on one host thread.
class Scheduler {
 public:
  ~Scheduler() {
    ending_ = true;
    for (const auto& fiber : fibers_) Resume(*fiber);
  }

  void RunGrid(const char* op, dim3 grid, dim3 block, size_t shared_bytes, absl::FunctionRef<void()> thread_body);
  void Barrier(int line);
  uint64_t ExchangeXor(uint64_t value, int lanes, int line);

  const ThreadPlace& place() const { return place_; }
  void* shared() { return shared_; }
  void set_order(ThreadOrder order) { order_ = order; }

 private:
  static void FiberEntry();
  void RunThreads(Fiber& fiber);
  void RunBlock();
  void Resume(Fiber& fiber);
  void Suspend() { Context::Change(current_->context, host_); }
  void SetPlace(int thread);
  void Ready(Fiber* fiber);
  Fiber* TakeReady();
  std::vector<int64_t> Order(int64_t count);
  void Require(bool condition, const char* what) const {
    if (!condition) Fail(what);
  }
  [[noreturn]] void Fail(const char* what) const;

  ThreadOrder order_ = OrderOfEnvironment();
  std::mt19937 random_{1};
  Context host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* current_ = nullptr;
  bool ending_ = false;

  // The grid and block in progress.
  const char* op_ = nullptr;
  const absl::FunctionRef<void()>* body_ = nullptr;
  ThreadPlace place_;
  int threads_ = 0, started_ = 0, ended_ = 0, at_barrier_ = 0, barrier_line_ = 0;
  std::vector<int64_t> thread_order_;
  std::array<Whereabouts, kMostThreads> whereabouts_;
  std::array<int, kMostThreads> lines_;
  std::array<Fiber*, kMostThreads> waiting_;  // at the barrier, by thread
  std::array<Exchange, kMostThreads / kWarp> exchanges_;
  std::vector<Fiber*> ready_;  // to be resumed; emptied from ready_begin_
  size_t ready_begin_ = 0;
  std::byte* shared_ = nullptr;
};

// The scheduler is on the heap: thread-local storage takes space on every thread's stack, and some libraries' threads
// have small stacks.
Scheduler& ThisThread() {
  static thread_local const auto scheduler = std::make_unique<Scheduler>();
  return *scheduler;
}

void Scheduler::Fail(const char* what) const {
  std::fprintf(stderr, "%s: %s; block (%u, %u, %u) of %d threads:\n", op_, what, place_.block.x, place_.block.y,
               place_.block.z, threads_);
  constexpr const char* kNames[] = {"not started", "running", "at the barrier", "exchanging", "ended"};
  for (int thread = 0; thread < threads_; ++thread) {
    // One line per run of threads in the same place.
    const auto same = [&](int other) {
      return whereabouts_[other] == whereabouts_[thread] && lines_[other] == lines_[thread];
    };
    int last = thread;
    while (last + 1 < threads_ && same(last + 1)) ++last;
    std::fprintf(stderr, "  threads %d to %d: %s, last wait in line %d\n", thread, last,
                 kNames[static_cast<int>(whereabouts_[thread])], lines_[thread]);
    thread = last;
  }
  std::fflush(stderr);
  CheckFailed(__FILE__, __LINE__, what);
}

std::vector<int64_t> Scheduler::Order(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  if (order_ == ThreadOrder::kBackward) std::reverse(order.begin(), order.end());
  if (order_ == ThreadOrder::kShuffled) std::shuffle(order.begin(), order.end(), random_);
  return order;
}

void Scheduler::SetPlace(int thread) {
  const unsigned t = static_cast<unsigned>(thread);
  const dim3& size = place_.block_size;
  place_.thread = dim3(t % size.x, t / size.x % size.y, t / size.x / size.y);
}

void Scheduler::FiberEntry() {
  Scheduler& self = ThisThread();
  Context::Entered(self.host_);
  Fiber& fiber = *self.current_;
  while (!self.ending_) {
    self.RunThreads(fiber);
    self.idle_.push_back(&fiber);
    self.Suspend();
  }
  Context::Leave(fiber.context, self.host_);
}

// Runs threads that have not started, until none is left.
void Scheduler::RunThreads(Fiber& fiber) {
  while (started_ < threads_) {
    fiber.thread = static_cast<int>(thread_order_[started_++]);
    SetPlace(fiber.thread);
    whereabouts_[fiber.thread] = Whereabouts::kRunning;
    (*body_)();
    whereabouts_[fiber.thread] = Whereabouts::kEnded;
    ++ended_;
  }
}

void Scheduler::Resume(Fiber& fiber) {
  current_ = &fiber;
  if (fiber.thread >= 0) SetPlace(fiber.thread);
  Context::Change(host_, fiber.context);
  current_ = nullptr;
}

void Scheduler::Ready(Fiber* fiber) {
  whereabouts_[fiber->thread] = Whereabouts::kRunning;
  ready_.push_back(fiber);
}

Fiber* Scheduler::TakeReady() {
  if (ready_begin_ == ready_.size()) {
    ready_.clear();
    ready_begin_ = 0;
    return nullptr;
  }
  if (order_ == ThreadOrder::kBackward) {
    Fiber* const last = ready_.back();
    ready_.pop_back();
    return last;
  }
  if (order_ == ThreadOrder::kShuffled) {
    std::swap(ready_[ready_begin_], ready_[ready_begin_ + random_() % (ready_.size() - ready_begin_)]);
  }
  return ready_[ready_begin_++];
}

void Scheduler::RunBlock() {
  started_ = ended_ = at_barrier_ = 0;
  std::fill_n(whereabouts_.begin(), threads_, Whereabouts::kNotStarted);
  std::fill_n(lines_.begin(), threads_, 0);
  while (true) {
    if (Fiber* const fiber = TakeReady()) {
      Resume(*fiber);
    } else if (started_ < threads_) {
      if (idle_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>());
        fibers_.back()->context.Start(FiberEntry);
        idle_.push_back(fibers_.back().get());
      }
      Fiber* const fresh = std::exchange(idle_.back(), nullptr);
      idle_.pop_back();
      Resume(*fresh);
    } else {
      break;
    }
  }
  Require(ended_ == threads_, "threads wait for others that never come");
}

void Scheduler::RunGrid(const char* op, dim3 grid, dim3 block, size_t shared_bytes,
                        absl::FunctionRef<void()> thread_body) {
  Require(body_ == nullptr, "a grid within a grid");
  op_ = op;
  body_ = &thread_body;
  place_ = {.thread = dim3(0, 0, 0), .block = dim3(0, 0, 0), .block_size = block, .grid_size = grid};
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  threads_ = 0;
  Require(threads >= 1 && threads <= kMostThreads, "a block has 1 to 1024 threads");
  Require(block.z <= 64, "a block has at most 64 threads in z");
  Require(grid.x <= 0x7fffffffu && grid.y <= kMostBlocksYZ && grid.z <= kMostBlocksYZ, "too many blocks");
  Require(shared_bytes <= kMostSharedBytes, "more than 227 KiB of dynamic shared memory");
  threads_ = static_cast<int>(threads);
  thread_order_ = Order(threads_);
  // Shared memory begins 16 bytes past a multiple of 32, which exposes code that needs more alignment than is promised,
  // and has not a byte more than requested.
  void* const shared_memory = ::operator new(16 + shared_bytes, std::align_val_t(32));
  shared_ = static_cast<std::byte*>(shared_memory) + 16;
  for (const int64_t index : Order(int64_t{grid.x} * grid.y * grid.z)) {
    const auto [x, y, z] = std::array{index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y};
    place_.block = dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
    std::memset(shared_, kPoison, shared_bytes);
    RunBlock();
  }
  ::operator delete(shared_memory, std::align_val_t(32));
  body_ = nullptr;
}

void Scheduler::Barrier(int line) {
  const int thread = current_->thread;
  lines_[thread] = line;
  whereabouts_[thread] = Whereabouts::kAtBarrier;
  if (at_barrier_ == 0) barrier_line_ = line;
  Require(line == barrier_line_, "threads of a block wait at different barriers");
  waiting_[thread] = current_;
  if (++at_barrier_ == threads_) {
    at_barrier_ = 0;
    for (int other = 0; other < threads_; ++other) Ready(waiting_[other]);
  }
  Suspend();  // also the last to arrive, since the order of threads decides which continues first
}

uint64_t Scheduler::ExchangeXor(uint64_t value, int lanes, int line) {
  const int thread = current_->thread, lane = thread % kWarp;
  lines_[thread] = line;
  whereabouts_[thread] = Whereabouts::kExchanging;
  Require(lanes >= 0 && lanes < kWarp, "an exchange with a lane that no warp has");
  Require(thread / kWarp < threads_ / kWarp, "an exchange in a warp of fewer than 32 threads");
  Exchange& exchange = exchanges_[thread / kWarp];
  if (exchange.arrived == 0) {
    exchange.lanes = lanes;
    exchange.line = line;
  }
  Require(exchange.lanes == lanes && exchange.line == line, "lanes of a warp exchange in different places");
  exchange.values[lane] = value;
  exchange.fibers[lane] = current_;
  if (++exchange.arrived == kWarp) {
    exchange.arrived = 0;
    for (int other = 0; other < kWarp; ++other) {
      exchange.fibers[other]->result = exchange.values[other ^ lanes];
      Ready(exchange.fibers[other]);
    }
  }
  Fiber* const fiber = current_;
  Suspend();
  return fiber->result;
}

}  // namespace

void SetThreadOrder(ThreadOrder order) { ThisThread().set_order(order); }

void RunGrid(const char* op, dim3 grid, dim3 block, size_t shared_bytes, absl::FunctionRef<void()> thread_body) {
  ThisThread().RunGrid(op, grid, block, shared_bytes, thread_body);
}

const ThreadPlace& CurrentThread() { return ThisThread().place(); }
void Barrier(int line) { ThisThread().Barrier(line); }
uint64_t ExchangeXor(uint64_t value, int lanes, int line) { return ThisThread().ExchangeXor(value, lanes, line); }
void* DynamicShared() { return ThisThread().shared(); }

}  // namespace zerofleet::device::cuda::emulation
