// Rendering the status page; see status_page.h. Sections are functions that append to the page; all text goes through
// Escaped.
#include "services/metrics/status_page.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/units.h"

namespace zerofleet::services {
namespace {

constexpr int kMostRows = 256;  // the most rows of a table: the page is for people
// The size of the curve's picture, in its own units, and the margins for the axes' numbers.
constexpr double kWidth = 640, kHeight = 240, kLeft = 52, kRight = 12, kTop = 10, kBottom = 32;
constexpr int kMostTicks = 6;

constexpr char kSecondsWithoutScript[] = "5";

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

// A table with one row for each of `rows`, cells escaped; what does not fit the page is counted.
std::string Table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
  for (const std::string& cell : header) absl::StrAppend(&html, "<th scope=\"col\">", Escaped(cell));
  html += "<tbody>";
  for (size_t i = 0; i < rows.size() && i < kMostRows; ++i) {
    html += "<tr>";
    for (const std::string& cell : rows[i]) absl::StrAppend(&html, "<td>", Escaped(cell));
    html += "\n";
  }
  html += "</table></div>\n";
  if (rows.size() > kMostRows) absl::StrAppend(&html, "<p>and ", rows.size() - kMostRows, " more</p>\n");
  return html;
}

std::string Section(const char* title, const std::string& body) {
  return absl::StrCat("<section><h2>", title, "</h2>\n", body, "</section>\n");
}

// --- what is above the tables

std::string Figure(const char* name, const std::string& value) {
  return absl::StrCat("<div><dt>", name, "<dd>", Escaped(value), "</div>\n");
}

std::string LastCheckpoint(const StatusPicture& picture) {
  const int64_t step = picture.status.last_checkpoint_step();
  if (step < 0) return "none yet";
  if (picture.last_commit_unix_seconds == 0) return absl::StrCat("step ", step);
  const int64_t age = std::max<int64_t>(0, picture.now_unix_seconds - picture.last_commit_unix_seconds);
  return absl::StrCat("step ", step, ", ", HumanSeconds(static_cast<double>(age)), " ago");
}

std::string Figures(const StatusPicture& picture) {
  const v1::GetStatusResponse& status = picture.status;
  const bool has_step = status.tokens_per_second() > 0;
  return absl::StrCat(
      "<dl>\n", Figure("step", absl::StrCat(status.step(), " of ", status.steps())),
      Figure("loss", has_step ? absl::StrFormat("%.4f", status.loss()) : "-"),
      Figure("throughput", has_step ? absl::StrCat(HumanCount(status.tokens_per_second()), " tokens/s") : "-"),
      Figure("MFU", has_step ? absl::StrFormat("%.1f%%", 100 * status.mfu()) : "-"),
      Figure("goodput", absl::StrFormat("%.1f%%", 100 * picture.goodput)),
      Figure("last checkpoint", LastCheckpoint(picture)), Figure("generation", absl::StrCat(status.generation())),
      Figure("ranks", absl::StrCat(status.world_size())), "</dl>\n");
}

std::string Notices(const v1::GetStatusResponse& status) {
  std::string html;
  for (const auto& [before, text] : {std::pair<const char*, const std::string&>{"", status.message()},
                                     {"last save failed: ", status.save_failure()},
                                     {"", status.rollback()}}) {
    if (!text.empty()) absl::StrAppend(&html, "<p class=\"notice\">", before, Escaped(text), "</p>\n");
  }
  return html;
}

// --- the curve

// One dimension of the picture, from the value `low` at `from` to `high` at `to`.
struct Axis {
  double low, high, from, to;
  double tick;  // the distance of two labels: 1, 2 or 5 times a power of ten

  double At(double value) const { return from + (to - from) * (value - low) / (high - low); }
  std::string Text(double value) const {
    return absl::StrFormat("%.*f", std::max(0, static_cast<int>(-std::floor(std::log10(tick)))), value);
  }
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    for (double k = std::ceil(low / tick - 1e-9); k * tick <= high + 1e-9 * tick; ++k) ticks.push_back(k * tick);
    return ticks;
  }
};

Axis AxisOf(double low, double high, double from, double to, double least_tick) {
  if (high - low < least_tick) high = low + least_tick;  // a line that is flat, or a single point
  double tick = std::max(least_tick, std::pow(10.0, std::floor(std::log10((high - low) / kMostTicks))));
  for (int i = 0; (high - low) / tick > kMostTicks; ++i) tick *= i % 3 == 1 ? 2.5 : 2;
  return {low, high, from, to, tick};
}

std::string Axes(const Axis& step, const Axis& loss) {
  std::string svg;
  for (const double value : loss.Ticks()) {
    absl::StrAppendFormat(&svg, "<path d=\"M%g %.1fH%g\"/><text class=\"y\" x=\"%g\" y=\"%.1f\">%s</text>", step.from,
                          loss.At(value), step.to, step.from - 6, loss.At(value) + 4, loss.Text(value));
  }
  for (const double value : step.Ticks()) {
    absl::StrAppendFormat(&svg, "<path d=\"M%.1f %gv4\"/><text class=\"x\" x=\"%.1f\" y=\"%g\">%s</text>",
                          step.At(value), loss.from, step.At(value), loss.from + 16, step.Text(value));
  }
  absl::StrAppendFormat(&svg, "<path d=\"M%g %gV%gH%g\"/><text class=\"x\" x=\"%g\" y=\"%g\">step</text>", step.from,
                        loss.to, loss.from, step.to, (step.from + step.to) / 2, kHeight - 3);
  return svg;
}

std::string Curve(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> finite;
  for (const CurvePoint& point : points) {
    if (std::isfinite(point.loss)) finite.push_back(point);
  }
  if (finite.size() < 2) return "<p>No steps yet since this coordinator has started.</p>\n";
  const auto by_loss = [](const CurvePoint& a, const CurvePoint& b) { return a.loss < b.loss; };
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end(), by_loss);
  const Axis step = AxisOf(static_cast<double>(finite.front().step), static_cast<double>(finite.back().step), kLeft,
                           kWidth - kRight, 1);
  const Axis loss = AxisOf(low->loss, high->loss, kHeight - kBottom, kTop, 1e-3);
  std::string line;
  for (const CurvePoint& point : finite) {
    absl::StrAppendFormat(&line, "%.1f,%.1f ", step.At(static_cast<double>(point.step)), loss.At(point.loss));
  }
  const std::string told = absl::StrFormat("loss %.4f at step %d, %.4f at step %d", finite.front().loss,
                                           finite.front().step, finite.back().loss, finite.back().step);
  return absl::StrFormat(
      "<figure><svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">%s<polyline points=\"%s\"/></svg>\n"
      "<figcaption>%s; lowest %.4f, highest %.4f</figcaption></figure>\n",
      kWidth, kHeight, told, Axes(step, loss), line, told, low->loss, high->loss);
}

// --- the tables

// "-" for a worker that has no rank yet.
std::string RankText(int rank) { return rank < 0 ? "-" : absl::StrCat(rank); }

// Where the rank is in each of its groups.
std::string Position(const v1::MemberStatus& member) {
  std::string text;
  for (const v1::GroupProgress& each : member.progress()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", each.group(), " ");
    if (each.sequence() > each.completed()) {
      absl::StrAppend(&text, "in ", each.sequence(), ", ", each.operation(), " ", each.unit());
    } else {
      absl::StrAppend(&text, each.completed(), " done");
    }
  }
  return text;
}

std::string Members(const v1::GetStatusResponse& status) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::MemberStatus& member : status.members()) {
    rows.push_back({RankText(member.rank()), member.state(), absl::StrCat(member.step()),
                    HumanSeconds(member.heartbeat_age_seconds()), member.host(), absl::StrCat(member.pid()),
                    member.device(), Position(member)});
  }
  const std::string table = Table({"rank", "state", "step", "heard", "host", "pid", "device", "collectives"}, rows);
  const int missing = status.world_size() - status.members_size();
  return missing > 0 ? absl::StrCat(table, "<p>Waiting for ", missing, " more.</p>\n") : table;
}

std::string Partitions(const v1::PartitionStatus& partition) {
  if (partition.ranks().empty()) return "";
  std::vector<std::string> header = {"rank", "elements owned"};
  for (const v1::StateBytes& state : partition.ranks(0).states()) header.push_back(state.name());
  std::vector<std::vector<std::string>> rows;
  for (const v1::RankPartition& rank : partition.ranks()) {
    int64_t owned = 0;
    for (const v1::FlatRange& range : rank.owned()) owned += range.flat_end() - range.flat_begin();
    std::vector<std::string> row = {absl::StrCat(rank.rank()), absl::StrCat(owned)};
    for (const v1::StateBytes& state : rank.states()) row.push_back(HumanBytes(state.bytes()));
    rows.push_back(std::move(row));
  }
  return Section("Partitions", Table(header, rows));
}

// Where each rank stood when a view was last lost: the end of its record.
std::string LastFlight(const v1::Flight& flight) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::FlightRecord& rank : flight.ranks()) {
    if (rank.entries().empty()) continue;
    const v1::FlightEntry& entry = rank.entries(rank.entries_size() - 1);
    rows.push_back({RankText(rank.rank()), entry.group(), absl::StrCat(entry.sequence()), entry.operation(),
                    entry.unit(), entry.finished() ? HumanSeconds(entry.seconds()) : "not finished"});
  }
  return Section("Last interruption",
                 absl::StrCat("<p>Generation ", flight.generation(), ": ", Escaped(flight.cause()),
                              "</p>\n<p>The last collective of each rank in it:</p>\n",
                              Table({"rank", "group", "number", "operation", "unit", "took"}, rows)));
}

}  // namespace

void LossCurve::Add(const CurvePoint& point) {
  absl::MutexLock lock(&mutex_);
  while (!points_.empty() && points_.back().step >= point.step) points_.pop_back();
  newest_ = point;
  if (!points_.empty() && points_.back().step / every_ == point.step / every_) return;
  points_.push_back(point);
  if (points_.size() <= kMostPoints) return;
  every_ *= 2;
  std::vector<CurvePoint> kept;
  for (const CurvePoint& each : points_) {
    if (kept.empty() || kept.back().step / every_ != each.step / every_) kept.push_back(each);
  }
  points_ = std::move(kept);
}

std::vector<CurvePoint> LossCurve::points() const {
  absl::MutexLock lock(&mutex_);
  std::vector<CurvePoint> all = points_;
  if (!all.empty() && newest_.step > all.back().step) all.push_back(newest_);
  return all;
}

std::string StatusPageHtml(const StatusPicture& picture) {
  const v1::GetStatusResponse& status = picture.status;
  const std::string run = Escaped(picture.run), phase = Escaped(status.phase());
  const std::string time =
      absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixSeconds(picture.now_unix_seconds), absl::UTCTimeZone());
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>", run, ": ", phase, ", step ",
      status.step(),
      "</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<noscript><meta http-equiv=\"refresh\" content=\"",
      kSecondsWithoutScript, "\"></noscript>\n<link rel=\"stylesheet\" href=\"", kStatusStyleName,
      "\">\n<script src=\"", kStatusScriptName,
      "\" defer></script></head>\n<body><p id=\"away\" role=\"status\">The coordinator does not answer.</p>\n<main>\n");
  absl::StrAppend(&html, "<h1>", run, " <span class=\"phase ", phase, "\">", phase, "</span></h1>\n", Notices(status),
                  "<progress max=\"", std::max<int64_t>(1, status.steps()), "\" value=\"", status.step(), "\">step ",
                  status.step(), "</progress>\n", Figures(picture), Section("Training loss", Curve(picture.losses)),
                  Section("Members", Members(status)));
  if (status.has_partition()) html += Partitions(status.partition());
  if (status.has_flight()) html += LastFlight(status.flight());
  absl::StrAppend(&html, "<footer>Zerofleet ", Escaped(status.version()), ", ", time,
                  " UTC</footer>\n</main></body></html>\n");
  return html;
}

const std::string& StatusPageStyle() {
  static const auto* style = new std::string(R"(:root { color-scheme: light dark; --line: #8886; --accent: #2266cc; }
@media (prefers-color-scheme: dark) { :root { --accent: #7ab0ff; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0; }
main { max-width: 1200px; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; }
.phase { font-size: .9rem; font-weight: normal; padding: .1rem .5rem; border: 1px solid; border-radius: 1rem; color: var(--accent); }
.phase.failed { color: #c22; }
.phase.recovering, .phase.forming, .phase.adopting { color: #a60; }
.notice { border-left: 4px solid #a60; padding-left: .6rem; overflow-wrap: anywhere; }
progress { width: 100%; accent-color: var(--accent); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .6rem; margin: .8rem 0; }
dl div { border: 1px solid var(--line); border-radius: .4rem; padding: .4rem .6rem; }
dt { font-size: .8rem; opacity: .75; }
dd { margin: 0; font-size: 1.05rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
figure { margin: 0; }
svg { width: 100%; max-width: 54rem; }
svg path { fill: none; stroke: var(--line); vector-effect: non-scaling-stroke; }
svg text { font-size: 11px; fill: currentColor; opacity: .8; font-variant-numeric: tabular-nums; }
svg .x { text-anchor: middle; }
svg .y { text-anchor: end; }
polyline { fill: none; stroke: var(--accent); stroke-width: 2; vector-effect: non-scaling-stroke; }
figcaption, footer { font-size: .85rem; opacity: .8; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
footer { margin-top: 1.5rem; }
#away { display: none; margin: 0; padding: .4rem 1rem; background: #c22; color: #fff; }
.away #away { display: block; }
)");
  return *style;
}

const std::string& StatusPageScript() {
  static const auto* script = new std::string(R"("use strict";
async function refresh() {
  try {
    const answer = await fetch(location.href, {cache: "no-store"});
    if (!answer.ok) throw new Error(answer.statusText);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const places = [...document.querySelectorAll(".scroll")].map(each => each.scrollLeft);
    document.querySelector("main").replaceWith(next.querySelector("main"));
    document.querySelectorAll(".scroll").forEach((each, i) => { each.scrollLeft = places[i] || 0; });
    document.title = next.title;
    document.body.classList.remove("away");
  } catch {
    document.body.classList.add("away");
  }
  setTimeout(refresh, 2000);
}
setTimeout(refresh, 2000);
)");
  return *script;
}

}  // namespace zerofleet::services
