// A sink that discards everything: for benches and tests.
#ifndef ZEROFLEET_WORKER_TRAINER_NULL_METRICS_H_
#define ZEROFLEET_WORKER_TRAINER_NULL_METRICS_H_

#include "worker/trainer/metrics_sink.h"

namespace zerofleet::trainer {

class NullMetrics : public MetricsSink {
 public:
  void SetIdentity(const WorkerIdentity&) override {}
  void StepDone(const StepFigures&) override {}
  void Evaluated(const v1::EvaluateEvent&) override {}
  void PhaseDone(zero::StepPhase, double) override {}
  void SetLossScale(double) override {}
  void StepSkipped() override {}
  void SetDeviceMemory(int64_t, int64_t, int64_t) override {}
  void SetMemory(std::string_view, std::string_view, int64_t, int64_t) override {}
  void SetAllocator(std::string_view, int64_t, int64_t, int64_t) override {}
  void CollectiveDone(const CollectiveFigures&) override {}
  void ShapeRefused(std::string_view) override {}
  void LinkCopied(std::string_view, int64_t) override {}
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_NULL_METRICS_H_
