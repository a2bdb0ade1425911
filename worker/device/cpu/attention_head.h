// One head of one sequence: where its parts are in the tensors of an attention op (op_arguments.h).
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_ATTENTION_HEAD_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_ATTENTION_HEAD_H_

#include <cmath>
#include <cstdint>

#include "worker/device/op_arguments.h"

namespace zerofleet::device {

struct AttentionHead {
  const AttentionShape& shape;
  int64_t sequence, head;

  int64_t width() const { return shape.heads * shape.head_size; }
  int64_t out_at() const { return sequence * shape.time * width() + head * shape.head_size; }
  int64_t rows_at() const { return (sequence * shape.heads + head) * shape.time; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }

  // Where a token's row holds this head's queries, and its group's keys and values.
  int64_t q_at() const { return At(head); }
  int64_t k_at() const { return At(shape.heads + group()); }
  int64_t v_at() const { return At(shape.heads + shape.kv_heads + group()); }

  // The first position that position `at` sees; the last is itself.
  int64_t FirstSeen(const int32_t* starts, int64_t at) const {
    return starts == nullptr ? 0 : starts[sequence * shape.time + at];
  }

 private:
  int64_t group() const { return head / (shape.heads / shape.kv_heads); }
  int64_t At(int64_t section) const { return sequence * shape.time * shape.columns() + section * shape.head_size; }
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_ATTENTION_HEAD_H_
