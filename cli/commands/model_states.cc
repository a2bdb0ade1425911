// The paper's formulas, read off the table of stages; see model_states.h.
#include "cli/commands/model_states.h"

#include "worker/zero/stage.h"

namespace zerofleet::cli {

double ElementBytes(const std::string& precision) { return precision == "fp32" ? 4 : 2; }

double UnsplitBytesPerParameter(const std::string& precision, const optim::OptimizerRow& optimizer) {
  return 2 * ElementBytes(precision) + static_cast<double>(optimizer.StateBytesPerParameter());
}

ModelStates PaperModelStates(int stage, double parameters, int64_t workers, const std::string& precision,
                             const optim::OptimizerRow& optimizer) {
  const zero::StageRow& row = zero::Stage(stage);
  const double part = parameters / static_cast<double>(workers);
  return {
      .parameters = ElementBytes(precision) * (row.split_parameters ? part : parameters),
      .gradients = ElementBytes(precision) * (row.split_gradients ? part : parameters),
      .optimizer = static_cast<double>(optimizer.StateBytesPerParameter()) * (row.split_optimizer ? part : parameters),
  };
}

double PaperTrafficElements(int stage, double parameters, int64_t workers) {
  // A reduce-scatter and an all-gather; gathering before each of the two passes instead of once adds one (ZeRO §7).
  const double passes = zero::Stage(stage).gather == zero::ParameterGather::kBeforeUse ? 3 : 2;
  return passes * parameters * static_cast<double>(workers - 1) / static_cast<double>(workers);
}

}  // namespace zerofleet::cli
