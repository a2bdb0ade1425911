// Every buffer of a training run on one rank, before anything runs, and when a step uses it.
//
// A step of one micro-batch is one training pass, whose phases are the model's (model.h), and an update. Its gradients
// come into being while the backward is through with more and more activations, and are gone before the next forward:
// so they may have the same memory, and so may what serves the head alone and what serves the backward after it.
#ifndef ZEROFLEET_WORKER_ZERO_MEMORY_PLAN_H_
#define ZEROFLEET_WORKER_ZERO_MEMORY_PLAN_H_

#include <cstdint>
#include <string>

#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/zero/layout.h"
#include "worker/zero/sum_rows.h"

namespace zerofleet::zero {

struct SlotPlan;

// Whether a unit that is not frozen has its gradient in this slot.
bool SlotHasGradients(const ZeroLayout& layout, const SlotPlan& slots, int slot);

// Names of the rows, as the parts of the engine ask for them; those of the optimizer's states are its table's names.
inline constexpr const char* kParametersRow = "parameters";
inline constexpr const char* kGradientsRow = "gradients";
inline constexpr const char* kActivationsRow = "activations";
inline constexpr const char* kModelScratchRow = "model scratch";
inline constexpr const char* kTokensRow = "tokens";
inline constexpr const char* kControlRow = "step control";
inline constexpr const char* kResultsRow = "step results";
inline constexpr const char* kTokenStagingRow = "token staging";
inline constexpr const char* kSnapshotRow = "snapshot";  // late: reserved by the first save
inline constexpr const char* kStagingRow = "checkpoint staging";
// Late, too, since their memory is kept from view to view; reserved when a view is entered. A new snapshot must not
// overwrite the last one before every rank has it, so there are two of each.
inline constexpr int kSnapshotsKept = 2;
std::string OwnSnapshotRow(int which);
std::string ReplicaRow(int which);
std::string ParameterSlotRow(int slot);
std::string GradientSlotRow(int slot);
std::string GradientStagingRow(int slot);
// Where gradients leave in bands: the one at hand, and buckets on their way.
inline constexpr const char* kGradientBandRow = "gradient band";
inline constexpr int kBuckets = 2;  // one being filled, one on its way
std::string BucketRow(int bucket);
std::string BucketStagingRow(int bucket);

// Steps that may be launched and whose results are not yet read (engine.h).
inline constexpr int kMostLaunchedSteps = 2;
// Copies of a micro-batch's tokens on the host: one on its way to the device, one being filled.
inline constexpr int kTokenStages = 2;

// What a save is written from: a copy of what the rank stores, or the states themselves, in place where the host reads
// them and else through kStagingRow.
enum class SaveFrom : uint8_t { kSnapshot, kStates, kStagedStates };
// Bytes of one of the two buffers of kStagingRow.
int64_t StagingBytes(const ZeroLayout& layout);

// The copies of what a rank stores that its host keeps, late.
struct HostCopies {
  SaveFrom saves = SaveFrom::kSnapshot;
  bool snapshots = false;  // taken at intervals, besides those that saves are written from
  bool replicas = false;   // of another rank's
};

// `tokens_per_micro_batch` of inputs, and as many targets; `arrays` of 3 has as many starts of documents, too.
memory::MemoryPlan PlanMemory(const model::Model& model, const ZeroLayout& layout, int64_t tokens_per_micro_batch,
                              const HostCopies& copies = {}, int arrays = 2);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_MEMORY_PLAN_H_
