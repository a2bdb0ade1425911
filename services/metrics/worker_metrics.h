// A worker's metrics for Prometheus: each is a row in one table, fed by the trainer through MetricsSink.
//
// To add one: a row in kRows of worker_metrics.cc, the place that sets it, and its line in docs/metrics.md.
#ifndef ZEROFLEET_SERVICES_METRICS_WORKER_METRICS_H_
#define ZEROFLEET_SERVICES_METRICS_WORKER_METRICS_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/metrics_sink.h"

namespace prometheus {
class Registry;
}

namespace zerofleet::services {

class WorkerMetrics : public trainer::MetricsSink {
 public:
  // Registers every metric in `registry`, which outlives this.
  explicit WorkerMetrics(prometheus::Registry& registry);
  // For a process that serves no metrics: the figures are kept, but nobody reads them.
  WorkerMetrics();
  ~WorkerMetrics() override;

  // The names of all metrics, in the table's order.
  static std::vector<std::string> Names();

  void SetIdentity(const trainer::WorkerIdentity& identity) override;
  void StepDone(const trainer::StepFigures& figures) override;
  void Evaluated(const v1::EvaluateEvent& evaluation) override;
  void PhaseDone(zero::StepPhase phase, double seconds) override;
  void SetLossScale(double scale) override;
  void StepSkipped() override;
  void SetDeviceMemory(int64_t total_bytes, int64_t used_bytes, int64_t runtime_bytes) override;
  void SetMemory(std::string_view space, std::string_view category, int64_t current_bytes, int64_t peak_bytes) override;
  void SetAllocator(std::string_view space, int64_t reserved_bytes, int64_t allocated_bytes,
                    int64_t largest_free_bytes) override;
  void CollectiveDone(const trainer::CollectiveFigures& figures) override;
  void ShapeRefused(std::string_view op) override;
  void LinkCopied(std::string_view direction, int64_t bytes) override;

  // Counts a refused client of the worker's ports, or a refused peer of its collectives; `cause` is one of Refusals'
  // causes. From any thread.
  void CountRefusal(const char* cause);

 private:
  struct Families;
  explicit WorkerMetrics(std::unique_ptr<prometheus::Registry> own);
  std::unique_ptr<prometheus::Registry> own_registry_;
  std::unique_ptr<Families> families_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_METRICS_WORKER_METRICS_H_
