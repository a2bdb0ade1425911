// The paper's formulas, derived from the table of stages; see model_states.h.
#include "cli/planner/model_states.h"

#include "worker/collective/topology.h"
#include "worker/zero/stage.h"

namespace zerofleet::cli {
namespace {

// The number of all-gathers of the parameters in a step, next to its one reduce-scatter: two where they are gathered
// before each of the two passes, otherwise one (ZeRO §7).
int Gathers(int stage) { return zero::Stage(stage).gather == zero::ParameterGather::kBeforeUse ? 2 : 1; }

}  // namespace

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
  return (Gathers(stage) + 1) * parameters * static_cast<double>(workers - 1) / static_cast<double>(workers);
}

double SentBytes(int stage, double parameters, int64_t workers, const std::string& precision, int team) {
  const collective::Topology topology(/*rank=*/0, static_cast<int>(workers), team);
  const double element = ElementBytes(precision), shard = parameters / static_cast<double>(workers);
  // A rank sends its contribution to each shard that another member of its team collects, and sums of the shards that
  // it collects for other teams.
  const auto collected = static_cast<double>(topology.Collected(0).size()), all = static_cast<double>(workers);
  const double reduced = shard * ((all - collected) * element + (collected - 1) * sizeof(float));
  return reduced + Gathers(stage) * shard * (all - 1) * element;
}

}  // namespace zerofleet::cli
