// A process's Prometheus metrics as numbers: what `zerofleet bench` reads from the workers it has started.
//
// Written by hand, since it takes a single GET of a page that one of our own workers serves on loopback; an HTTP client
// library would be linked into every executable for this alone.
#ifndef ZEROFLEET_CLI_LAUNCHER_SCRAPE_H_
#define ZEROFLEET_CLI_LAUNCHER_SCRAPE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zerofleet::cli {

// The value of each series of a metrics page, by its name with labels, as in
// "zerofleet_worker_memory_bytes{space=\"device\"}". Comments and malformed lines are skipped.
std::map<std::string, double> ParseMetrics(absl::string_view page);

// The metrics that a process serves on `port` of this machine. Unavailable, naming the port, if it does not answer.
absl::StatusOr<std::map<std::string, double>> ScrapeMetrics(int port);

// The first of `count` consecutive ports on which nothing listens at the moment. Unavailable if there are none.
absl::StatusOr<int> FreePorts(int count);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_SCRAPE_H_
