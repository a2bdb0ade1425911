// The passes of a PyTorch module, computed in Python (zerofleet/passes.py): the seam between the engine and the
// module's hooks.
#ifndef ZEROFLEET_PYTHON_SRC_PASSES_H_
#define ZEROFLEET_PYTHON_SRC_PASSES_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/model/foreign.h"

namespace zerofleet::python {

// Raises zerofleet.Error for a status that is not OK. Needs the GIL.
void Raise(const absl::Status& status);

// A pass's units, as Python's hooks see them. A status that is not OK is raised, and also kept for the caller that runs
// the pass, since an exception loses its status code on its way through PyTorch. After that the engine is no longer
// called: units that a failed pass still holds are released when the view ends.
class Units {
 public:
  Units(model::ScriptedPass& pass, const device::Stream& stream) : pass_(pass), stream_(stream) {}

  // The driver's handle of the stream in whose order the memory is valid; 0 on the CPU.
  uintptr_t Stream() const { return reinterpret_cast<uintptr_t>(stream_.native_handle()); }

  uintptr_t Acquire(int unit);
  void Release(int unit);
  uintptr_t Gradient(int unit);
  void Deliver(int unit);

  const absl::Status& failure() const { return failure_; }

 private:
  void Check(const absl::Status& status);

  model::ScriptedPass& pass_;
  const device::Stream& stream_;
  absl::Status failure_;
};

class PythonPasses : public model::ForeignPasses {
 public:
  // `passes` has the methods prepare, facts, limit_memory, train and evaluate.
  explicit PythonPasses(nanobind::object passes) : passes_(std::move(passes)) {}

  absl::Status Prepare(const v1::Config& config, const device::Device& device) override;
  std::vector<model::NamedFact> Facts() override { return facts_; }
  absl::Status LimitMemory(int64_t bytes) override;
  absl::StatusOr<model::ForeignLoss> Train(const model::ForeignBatch& batch, model::ScriptedPass& units,
                                           const std::function<void()>& on_backward) override;
  absl::StatusOr<model::ForeignLoss> Evaluate(const model::ForeignBatch& batch, model::ScriptedPass& units) override;

 private:
  nanobind::object passes_;
  std::vector<model::NamedFact> facts_;
};

}  // namespace zerofleet::python

#endif  // ZEROFLEET_PYTHON_SRC_PASSES_H_
