// Arena figures and collective totals as messages and metrics; see rank_report.h.
#include "worker/trainer/rank_report.h"

#include <algorithm>
#include <string>
#include <utility>

#include "coordinator/placement.h"

namespace zerofleet::trainer {
namespace {

constexpr const char *kToHost = "to_host", *kToDevice = "to_device";

void SetMemory(const memory::ArenaFigures& figures, google::protobuf::Map<std::string, v1::CategoryMemory>* memory) {
  for (int c = 0; c < memory::kCategories; ++c) {
    v1::CategoryMemory& entry = (*memory)[memory::CategoryName(static_cast<memory::Category>(c))];
    entry.set_current(figures.categories[c].current);
    entry.set_peak(figures.categories[c].peak);
  }
}

}  // namespace

v1::RankReport BuildRankReport(int rank, const memory::Arena& device, const memory::Arena& host,
                               const parallel::GroupCommunicators& groups, const device::LinkTraffic& link) {
  v1::RankReport report;
  report.set_rank(rank);
  memory::ArenaFigures device_figures = device.figures(), host_figures = host.figures();
  SetMemory(device_figures, report.mutable_device_memory());
  SetMemory(host_figures, report.mutable_host_memory());
  report.set_device_reserved_bytes(device_figures.reserved);
  report.set_host_reserved_bytes(host_figures.reserved);
  report.set_device_fragmentation_ratio(device_figures.FragmentationRatio());
  report.set_host_fragmentation_ratio(host_figures.FragmentationRatio());
  report.set_rss_peak_bytes(memory::PeakResidentBytes());
  for (const std::unique_ptr<collective::Communicator>& communicator : groups.all()) {
    for (const auto& [operation, totals] : communicator->totals()) {
      v1::CollectiveReport* collective = report.add_collectives();
      collective->set_operation(collective::OperationName(operation));
      collective->set_group(communicator->group());
      collective->set_backend(communicator->backend());
      collective->set_calls(totals.calls);
      collective->set_bytes(totals.bytes);
      collective->set_seconds(totals.seconds);
    }
  }
  for (const auto& [name, direction] : {std::pair{kToHost, link.to_host}, {kToDevice, link.to_device}}) {
    if (direction.copies == 0) continue;
    v1::LinkReport& entry = *report.add_link();
    entry.set_direction(name);
    entry.set_copies(direction.copies);
    entry.set_bytes(direction.bytes);
  }
  return report;
}

v1::FlightRecord FlightOf(int rank, int world_size, const parallel::GroupCommunicators& groups, double now) {
  v1::FlightRecord record;
  record.set_rank(rank);
  for (const std::unique_ptr<collective::Communicator>& communicator : groups.all()) {
    for (const collective::CollectiveFlight& flight : communicator->flights()) {
      v1::FlightEntry& entry = *record.add_entries();
      entry.set_group(communicator->group());
      entry.set_sequence(flight.sequence);
      entry.set_operation(collective::OperationName(flight.operation));
      entry.set_unit(flight.unit);
      entry.set_bytes(flight.gathered_bytes);
      entry.set_began_ago(now - flight.began);
      entry.set_finished(flight.ended > 0);
      entry.set_seconds((flight.ended > 0 ? flight.ended : now) - flight.began);
    }
  }
  auto& entries = *record.mutable_entries();
  const int most = coordinator::MostFlightEntries(world_size);
  if (entries.size() <= most) return record;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const v1::FlightEntry& a, const v1::FlightEntry& b) { return a.began_ago() > b.began_ago(); });
  entries.DeleteSubrange(0, entries.size() - most);  // drops the oldest
  return record;
}

void ExportMemory(memory::Space space, const memory::ArenaFigures& figures, MetricsSink& metrics) {
  for (int c = 0; c < memory::kCategories; ++c) {
    metrics.SetMemory(memory::SpaceName(space), memory::CategoryName(static_cast<memory::Category>(c)),
                      figures.categories[c].current, figures.categories[c].peak);
  }
  metrics.SetAllocator(memory::SpaceName(space), figures.reserved, figures.allocated, figures.largest_free_block);
}

void ExportLink(const device::LinkTraffic& link, const device::LinkTraffic& before, MetricsSink& metrics) {
  for (const auto& [name, bytes] : {std::pair{kToHost, link.to_host.bytes - before.to_host.bytes},
                                    {kToDevice, link.to_device.bytes - before.to_device.bytes}}) {
    if (bytes > 0) metrics.LinkCopied(name, bytes);
  }
}

void ObserveCollective(const collective::Communicator& communicator, const collective::CollectiveRecord& record,
                       MetricsSink& metrics) {
  std::string backend = communicator.backend();
  metrics.CollectiveDone(
      {.operation = collective::OperationName(record.operation),
       .group = communicator.group(),
       .backend = backend,
       .sent_bytes = record.traffic.sent,
       .seconds = record.seconds,
       .bus_bandwidth = BusBandwidth(record.operation, communicator.size(), record.gathered_bytes, record.seconds)});
}

double BusBandwidth(collective::Operation operation, int ranks, int64_t gathered_bytes, double seconds) {
  if (seconds <= 0) return 0;
  double algorithm = static_cast<double>(gathered_bytes) / seconds;
  double share = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case collective::Operation::kAllGather:
    case collective::Operation::kReduceScatter: return algorithm * share;
    case collective::Operation::kAllReduce: return 2 * algorithm * share;
  }
  return 0;
}

}  // namespace zerofleet::trainer
