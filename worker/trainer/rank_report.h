// What a rank measured, in the terms of the report and the metrics.
#ifndef ZEROFLEET_WORKER_TRAINER_RANK_REPORT_H_
#define ZEROFLEET_WORKER_TRAINER_RANK_REPORT_H_

#include "worker/collective/communicator.h"
#include "worker/memory/arena.h"
#include "worker/parallel/group_communicators.h"
#include "worker/trainer/metrics_sink.h"
#include "worker/zero/updater.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::trainer {

v1::RankReport BuildRankReport(int rank, const memory::Arena& device, const memory::Arena& host,
                               const parallel::GroupCommunicators& groups, const device::LinkTraffic& link);

// The newest collectives of all groups: as many, over all groups, as the coordinator keeps for a view of `world_size`.
v1::FlightRecord FlightOf(int rank, int world_size, const parallel::GroupCommunicators& groups, double now);

void ExportMemory(memory::Space space, const memory::ArenaFigures& figures, MetricsSink& metrics);
// Exports what has been copied since `before`, a figure of the same view.
void ExportLink(const device::LinkTraffic& link, const device::LinkTraffic& before, MetricsSink& metrics);
void ObserveCollective(const collective::Communicator& communicator, const collective::CollectiveRecord& record,
                       MetricsSink& metrics);

// Bytes per second over the slowest link, as nccl-tests defines it: the whole (gathered) size over the time, times
// (n-1)/n, twice that for an all-reduce.
double BusBandwidth(collective::Operation operation, int ranks, int64_t gathered_bytes, double seconds);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_RANK_REPORT_H_
