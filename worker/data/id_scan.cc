// Threads claim chunks in order; see id_scan.h. Each chunk is read into a buffer that stays in cache and is compared
// there; only a chunk with an id that is too large is searched for it.
#include "worker/data/id_scan.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/threads.h"

namespace zerofleet::data {
namespace {

constexpr int64_t kChunkBytes = 512 * 1024;

// Whether any id is above `top`. Compilers turn blocks of constant length and a mask instead of a branch into vector
// code; computing the largest id would take several times as long.
template <typename T>
bool AnyAbove(std::span<const T> ids, T top) {
  constexpr size_t kBlock = 4096;
  bool any = false;
  for (; ids.size() >= kBlock; ids = ids.subspan(kBlock)) {
    T above = 0;
    for (size_t i = 0; i < kBlock; ++i) above |= static_cast<T>(ids[i] > top ? ~T{0} : T{0});
    any |= above != 0;
  }
  for (const T id : ids) any |= id > top;
  return any;
}

class Scan {
 public:
  Scan(const TokenFile& file, const TokenFormat& format, int64_t tokens, int64_t vocab,
       const std::function<bool()>& cancelled)
      : file_(file), format_(format), tokens_(tokens), vocab_(static_cast<uint64_t>(vocab)), cancelled_(cancelled) {}

  // Runs on each thread.
  template <typename T>
  void Run() {
    constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(T));
    std::vector<T> buffer(static_cast<size_t>(std::min(kChunk, tokens_)));
    while (!done_.load(std::memory_order_relaxed)) {
      const int64_t first = next_.fetch_add(1, std::memory_order_relaxed) * kChunk;
      if (first >= tokens_) return;
      const int64_t count = std::min(kChunk, tokens_ - first), offset = Offset(first);
      if (cancelled_ && cancelled_()) return Fail(absl::CancelledError("stopped while data was checked"));
      if (file_.SkipHole(offset) >= Offset(first + count)) continue;  // zeros, and every vocabulary has id 0
      const std::span<T> ids(buffer.data(), static_cast<size_t>(count));
      if (absl::Status status = file_.Read(offset, std::as_writable_bytes(ids)); !status.ok()) return Fail(status);
      if (!AnyAbove<T>(ids, static_cast<T>(vocab_ - 1))) continue;
      const auto found = std::find_if(ids.begin(), ids.end(), [&](T id) { return id >= vocab_; });
      Found({first + (found - ids.begin()), *found});
    }
  }

  absl::StatusOr<std::optional<FoundId>> Result() {
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    return found_;
  }

 private:
  int64_t Offset(int64_t token) const { return format_.data_offset + token * format_.token_bytes; }

  // Chunks are claimed in order and always finished, so that the first id in the file is among those found.
  void Found(FoundId id) {
    absl::MutexLock lock(&mutex_);
    if (!found_ || id.position < found_->position) found_ = id;
    done_ = true;
  }
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = std::move(status);
    done_ = true;
  }

  const TokenFile& file_;
  const TokenFormat& format_;
  const int64_t tokens_;
  const uint64_t vocab_;
  const std::function<bool()>& cancelled_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> done_{false};
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<FoundId> found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

bool MayExceed(const TokenFormat& format, int64_t vocab) { return vocab < int64_t{1} << (8 * format.token_bytes); }

absl::StatusOr<std::optional<FoundId>> FindIdNotBelow(const TokenFile& file, const TokenFormat& format, int64_t tokens,
                                                      int64_t vocab, int threads,
                                                      const std::function<bool()>& cancelled) {
  ZF_CHECK(tokens >= 0 && tokens <= format.tokens);
  ZF_CHECK(vocab >= 1);
  if (!MayExceed(format, vocab)) return std::nullopt;
  Scan scan(file, format, tokens, vocab, cancelled);
  const auto work = [&] {
    if (format.token_bytes == 1) scan.Run<uint8_t>();
    if (format.token_bytes == 2) scan.Run<uint16_t>();
    if (format.token_bytes == 4) scan.Run<uint32_t>();
  };
  const int64_t chunks = (tokens * format.token_bytes + kChunkBytes - 1) / kChunkBytes;
  RunOnThreads(static_cast<int>(std::min<int64_t>(threads, chunks)), work);
  return scan.Result();
}

}  // namespace zerofleet::data
