// Receives a trainer's figures for monitoring; services/metrics/worker_metrics.h exports them, tests collect them in
// memory.
//
// Every function is thread-safe, cheap next to a step, and never fails. `space` is "device" or "host".
#ifndef ZEROFLEET_WORKER_TRAINER_METRICS_SINK_H_
#define ZEROFLEET_WORKER_TRAINER_METRICS_SINK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "worker/zero/phases.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::trainer {

// Values that do not change between two recoveries.
struct WorkerIdentity {
  int rank = 0;
  int world_size = 0;
  int zero_stage = 0;
  std::string precision;           // bf16 | fp16 | fp32
  std::string device;              // cpu | cuda
  std::string device_description;  // as the vendor names it
  std::string version;
  std::string run;  // the run's name
};

// One optimizer step, as in the report's step event; `tokens` are those that this rank trained on.
struct StepFigures {
  int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  int64_t tokens = 0;
  double mfu = 0;
};

// One collective operation, as this rank saw it. `gathered_bytes` is the size of the whole array it concerned.
struct CollectiveFigures {
  std::string_view operation;  // all_gather | reduce_scatter | all_reduce
  std::string_view group;      // data | tensor
  std::string_view backend;    // ucx | nccl | in_process
  int64_t sent_bytes = 0;
  double seconds = 0;
  double bus_bandwidth = 0;  // bytes per second over the slowest link, as nccl-tests defines it
};

class MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  virtual void SetIdentity(const WorkerIdentity& identity) = 0;  // replaces the previous one
  virtual void StepDone(const StepFigures& figures) = 0;
  virtual void Evaluated(const v1::EvaluateEvent& evaluation) = 0;
  virtual void PhaseDone(zero::StepPhase phase, double seconds) = 0;
  virtual void SetLossScale(double scale) = 0;
  virtual void StepSkipped() = 0;
  // As counted by the device's driver; `runtime_bytes` is the part used by context and libraries, outside the arena.
  virtual void SetDeviceMemory(int64_t total_bytes, int64_t used_bytes, int64_t runtime_bytes) = 0;
  virtual void SetMemory(std::string_view space, std::string_view category, int64_t current_bytes,
                         int64_t peak_bytes) = 0;
  // Free bytes are reserved minus allocated; the largest block among them shows how fragmented they are.
  virtual void SetAllocator(std::string_view space, int64_t reserved_bytes, int64_t allocated_bytes,
                            int64_t largest_free_bytes) = 0;
  virtual void CollectiveDone(const CollectiveFigures& figures) = 0;
  // Called once for each shape of this op that the GPU's libraries refuse.
  virtual void ShapeRefused(std::string_view op) = 0;
  // Bytes copied by offload; `direction` is to_host or to_device.
  virtual void LinkCopied(std::string_view direction, int64_t bytes) = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_METRICS_SINK_H_
