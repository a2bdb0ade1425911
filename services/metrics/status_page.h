// The coordinator's status page: what `zerofleet status` shows, with the loss as a curve, for a browser. It is
// read-only, and what workers have said about themselves is escaped.
//
// It is complete without JavaScript, and then reloads itself every few seconds; with JavaScript only its content is
// replaced. To show more, add a section in status_page.cc.
#ifndef ZEROFLEET_SERVICES_METRICS_STATUS_PAGE_H_
#define ZEROFLEET_SERVICES_METRICS_STATUS_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::services {

struct CurvePoint {
  int64_t step;
  double loss;  // nats per token
  double tokens_per_second;
};

// The run's losses, thinned out for a picture: at most kMostPoints, evenly spaced, however long the run is. From any
// thread.
class LossCurve {
 public:
  static constexpr size_t kMostPoints = 512;

  // Adds a completed step. If it repeats a step, after a loss or a rollback, the points from that step on are dropped.
  void Add(const CurvePoint& point);
  std::vector<CurvePoint> points() const;

 private:
  mutable absl::Mutex mutex_;
  std::vector<CurvePoint> points_ ABSL_GUARDED_BY(mutex_);  // ascending
  int64_t every_ ABSL_GUARDED_BY(mutex_) = 1;               // steps between two points that are kept
  CurvePoint newest_ ABSL_GUARDED_BY(mutex_) = {};          // shown until the next one
};

// What a coordinator keeps about its run only for the page. From any thread.
struct RunHistory {
  LossCurve losses;
  std::atomic<double> goodput = 0;  // 0 to 1
  std::atomic<int64_t> last_commit_unix_seconds = 0;
};

struct StatusPicture {
  std::string run;
  v1::GetStatusResponse status;    // with partitions and flight
  std::vector<CurvePoint> losses;  // ascending
  double goodput = 0;              // 0 to 1
  int64_t now_unix_seconds = 0;
  int64_t last_commit_unix_seconds = 0;  // 0: none
};

// The page as HTML. It refers to the style sheet and the script by these names, relative to its own address.
inline constexpr char kStatusStyleName[] = "status.css";
inline constexpr char kStatusScriptName[] = "status.js";
std::string StatusPageHtml(const StatusPicture& picture);
const std::string& StatusPageStyle();
const std::string& StatusPageScript();

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_METRICS_STATUS_PAGE_H_
