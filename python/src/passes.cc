// Calls into Python and back; the GIL is held only in Python. See passes.h.
#include "passes.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/json.h"

namespace nb = nanobind;

namespace zerofleet::python {
namespace {

// One line with the last frame of the user's own code and the exception.
std::string DescribeException(const nb::python_error& error) {
  try {
    return nb::cast<std::string>(nb::module_::import_("zerofleet.errors").attr("describe")(error.value()));
  } catch (const std::exception& other) {
    return absl::StrCat(error.what(), " (and while it was described: ", other.what(), ")");
  }
}

// The engine's own error if it has failed; otherwise the user's code has, which is bad input.
absl::Status StatusOf(const nb::python_error& error, const Units* units) {
  if (units != nullptr && !units->failure().ok()) return units->failure();
  return absl::InvalidArgumentError(DescribeException(error));
}

// A pass's loss: two numbers, or where they are. An engine's error comes first: the user's code may have caught the
// exception and gone on without a unit.
absl::StatusOr<model::ForeignLoss> LossOf(const nb::object& result, const Units& units) {
  if (!units.failure().ok()) return units.failure();
  model::ForeignLoss loss;
  if (nb::isinstance<nb::int_>(result)) {  // the address of both in a GPU's memory
    loss.on_device = reinterpret_cast<const double*>(nb::cast<uintptr_t>(result));
  } else {
    loss = {nb::cast<double>(result[0]), nb::cast<double>(result[1])};
  }
  return loss;
}

std::vector<int64_t> SamplesOf(const model::ForeignBatch& batch) {
  return {batch.batch.samples.begin(), batch.batch.samples.end()};
}

}  // namespace

void Raise(const absl::Status& status) {
  if (status.ok()) return;
  const nb::object type = nb::module_::import_("zerofleet.errors").attr("Error");
  const nb::object error = type(std::string(status.message()), ExitCode(status));
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

void Units::Check(const absl::Status& status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  Raise(status);
}

uintptr_t Units::Acquire(int unit) {
  Raise(failure_);
  const absl::StatusOr<device::Tensor> memory = [&] {
    const nb::gil_scoped_release wait;
    return pass_.Acquire(unit);
  }();
  Check(memory.status());
  return reinterpret_cast<uintptr_t>(memory->data);
}

void Units::Release(int unit) {
  if (!failure_.ok()) return;
  const absl::Status status = [&] {
    const nb::gil_scoped_release wait;
    return pass_.Release(unit);
  }();
  Check(status);
}

uintptr_t Units::Gradient(int unit) {
  Raise(failure_);
  const absl::StatusOr<float*> memory = [&] {
    const nb::gil_scoped_release wait;
    return pass_.Gradient(unit);
  }();
  Check(memory.status());
  return reinterpret_cast<uintptr_t>(*memory);
}

void Units::Deliver(int unit) {
  if (!failure_.ok()) return;
  const absl::Status status = [&] {
    const nb::gil_scoped_release wait;
    return pass_.Deliver(unit);
  }();
  Check(status);
}

absl::Status PythonPasses::Prepare(const v1::Config& config, const device::Device& device) {
  const nb::gil_scoped_acquire gil;
  try {
    passes_.attr("prepare")(DumpJson(ProtoToJson(config)), device.kind(), device.ordinal());
    facts_ = nb::cast<std::vector<model::NamedFact>>(passes_.attr("facts")());
    return absl::OkStatus();
  } catch (const nb::python_error& error) {
    return StatusOf(error, nullptr);
  }
}

absl::Status PythonPasses::LimitMemory(int64_t bytes) {
  const nb::gil_scoped_acquire gil;
  try {
    passes_.attr("limit_memory")(bytes);
    return absl::OkStatus();
  } catch (const nb::python_error& error) {
    return StatusOf(error, nullptr);
  }
}

absl::StatusOr<model::ForeignLoss> PythonPasses::Train(const model::ForeignBatch& batch, model::ScriptedPass& units,
                                                       const std::function<void()>& on_backward) {
  const nb::gil_scoped_acquire gil;
  Units seen(units, batch.stream);
  try {
    return LossOf(passes_.attr("train")(nb::cast(&seen, nb::rv_policy::reference), SamplesOf(batch),
                                        batch.batch.position, batch.batch.first, nb::cpp_function(on_backward)),
                  seen);
  } catch (const nb::python_error& error) {
    return StatusOf(error, &seen);
  } catch (const nb::cast_error&) {
    return absl::InvalidArgumentError("loss: must return a sum and the weight it is divided by, both numbers");
  }
}

absl::StatusOr<model::ForeignLoss> PythonPasses::Evaluate(const model::ForeignBatch& batch,
                                                          model::ScriptedPass& units) {
  const nb::gil_scoped_acquire gil;
  Units seen(units, batch.stream);
  try {
    return LossOf(
        passes_.attr("evaluate")(nb::cast(&seen, nb::rv_policy::reference), SamplesOf(batch), batch.batch.position),
        seen);
  } catch (const nb::python_error& error) {
    return StatusOf(error, &seen);
  } catch (const nb::cast_error&) {
    return absl::InvalidArgumentError("loss: must return a sum and the weight it is divided by, both numbers");
  }
}

}  // namespace zerofleet::python
