// Every buffer of a training run on one rank, before anything runs, and when a step uses it.
//
// A step of one micro-batch is one training pass, whose phases are the model's (model.h), and an update. Its gradients
// come into being while the backward needs fewer and fewer activations, and are gone before the next forward: so
// gradients and activations may share memory, and so may what only the head needs and what the backward needs after it.
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

// Names of the rows that the parts of the engine request; the rows of the optimizer's states have the names in its
// table.
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
// Snapshot and replica rows are late, too, since their memory is kept from view to view; it is reserved when a view is
// entered. There are two of each, so that a new snapshot does not overwrite the last one before every rank has it.
inline constexpr int kSnapshotsKept = 2;
std::string OwnSnapshotRow(int which);
std::string ReplicaRow(int which);
std::string ParameterSlotRow(int slot);
std::string GradientSlotRow(int slot);
std::string GradientStagingRow(int slot);
// Where gradients leave in bands: the current band, and buckets on their way.
inline constexpr const char* kGradientBandRow = "gradient band";
inline constexpr int kBuckets = 2;  // one being filled, one on its way
std::string BucketRow(int bucket);
std::string BucketStagingRow(int bucket);

// How many steps may be launched whose results are not yet read (engine.h).
inline constexpr int kMostLaunchedSteps = 2;
// Copies of a micro-batch's tokens on the host: one on its way to the device, one being filled.
inline constexpr int kTokenStages = 2;

// What a save is written from: a copy of what the rank stores, or the states themselves, in place where the host can
// read them, otherwise through kStagingRow.
enum class SaveFrom : uint8_t { kSnapshot, kStates, kStagedStates };
// Bytes of one of the two buffers of kStagingRow.
int64_t StagingBytes(const ZeroLayout& layout);

// The copies of stored states that a rank's host keeps, in late rows.
struct HostCopies {
  SaveFrom saves = SaveFrom::kSnapshot;
  bool snapshots = false;  // taken at intervals, besides those that saves are written from
  bool replicas = false;   // copies of another rank's snapshots
};

// A micro-batch has `tokens_per_micro_batch` inputs and as many targets; with `arrays` of 3, as many starts of
// documents, too.
memory::MemoryPlan PlanMemory(const model::Model& model, const ZeroLayout& layout, int64_t tokens_per_micro_batch,
                              const HostCopies& copies = {}, int arrays = 2);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_MEMORY_PLAN_H_
