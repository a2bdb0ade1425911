// Two dry passes and a ParameterSource that takes notes; see unit_uses.h.
#include "worker/model/unit_uses.h"

#include <utility>

#include "base/status.h"
#include "worker/device/dry/dry_device.h"

namespace zerofleet::model {
namespace {

class UseRecorder : public ParameterSource {
 public:
  explicit UseRecorder(device::DType dtype) : dtype_(dtype) {}

  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    uses_.push_back(unit);
    return device::Tensor{device::DryDevice::Address(), dtype_};
  }
  void Release(int) override {}
  absl::StatusOr<float*> Gradient(int) override { return static_cast<float*>(device::DryDevice::Address()); }
  absl::Status DeliverGradient(int) override { return absl::OkStatus(); }

  std::vector<int> TakeUses() { return std::exchange(uses_, {}); }

 private:
  const device::DType dtype_;
  std::vector<int> uses_;
};

}  // namespace

absl::StatusOr<UnitUses> RecordUses(Model& model, device::DType dtype) {
  device::DryDevice device;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  void* const address = device::DryDevice::Address();
  model.SetMemory({.activations = address, .scratch = address, .host_activations = address});
  const int32_t* const tokens = static_cast<int32_t*>(address);
  const MicroBatch batch = {.sequences = 1, .time = 1, .inputs = tokens, .targets = tokens};
  double* const loss = static_cast<double*>(address);
  UseRecorder parameters(dtype);
  UnitUses uses;
  ZF_RETURN_IF_ERROR(model.Train(batch, static_cast<float*>(address), parameters, *stream, loss, [] {}));
  uses.training = parameters.TakeUses();
  ZF_RETURN_IF_ERROR(model.Evaluate(batch, parameters, *stream, loss));
  uses.evaluation = parameters.TakeUses();
  return uses;
}

}  // namespace zerofleet::model
