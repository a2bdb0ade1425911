// JSON lines through spdlog; see logging.h.
#include "services/common/logging.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ostream_sink.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/status.h"

namespace zerofleet::services {
namespace {

struct LevelRow {
  LogLevel level;
  const char* name;
  spdlog::level::level_enum spdlog_level;
};
constexpr LevelRow kLevels[] = {{LogLevel::kDebug, "debug", spdlog::level::debug},
                                {LogLevel::kInfo, "info", spdlog::level::info},
                                {LogLevel::kWarning, "warning", spdlog::level::warn},
                                {LogLevel::kError, "error", spdlog::level::err}};

const LevelRow& RowOf(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

constexpr int64_t kUnknown = -1;

nlohmann::ordered_json NumberOrNull(int64_t value) {
  return value == kUnknown ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text) {
  for (const LevelRow& row : kLevels) {
    if (text == row.name) return row.level;
  }
  return absl::InvalidArgumentError(absl::StrCat("log level \"", text, "\" is none of debug, info, warning, error"));
}

absl::StatusOr<LogLevel> LogLevelFromFlagOrEnvironment(const std::string& flag) {
  if (!flag.empty()) return ParseLogLevel(flag);
  const char* environment = std::getenv("ZEROFLEET_LOG_LEVEL");
  if (environment == nullptr || *environment == '\0') return LogLevel::kWarning;
  const absl::StatusOr<LogLevel> level = ParseLogLevel(environment);
  if (!level.ok()) return Annotate(level.status(), "ZEROFLEET_LOG_LEVEL");
  return *level;
}

struct Logger::Impl {
  Impl(LogLevel level, std::ostream& out, const Clock& clock)
      : clock(clock), logger("zerofleet", std::make_shared<spdlog::sinks::ostream_sink_mt>(out, /*force_flush=*/true)) {
    logger.set_formatter(std::make_unique<spdlog::pattern_formatter>("%v", spdlog::pattern_time_type::utc, "\n"));
    logger.set_level(RowOf(level).spdlog_level);
  }

  const Clock& clock;
  spdlog::logger logger;
  absl::Mutex mutex;
  std::string trace_id ABSL_GUARDED_BY(mutex);
  std::atomic<int64_t> rank = kUnknown, generation = kUnknown, step = kUnknown;
};

Logger::Logger(LogLevel level) : Logger(level, std::cerr, Clock::Real()) {}
Logger::Logger(LogLevel level, std::ostream& out, const Clock& clock)
    : impl_(std::make_unique<Impl>(level, out, clock)) {}
Logger::~Logger() = default;

void Logger::SetRank(int rank) { impl_->rank = rank; }
void Logger::SetGeneration(uint64_t generation) { impl_->generation = static_cast<int64_t>(generation); }
void Logger::SetStep(int64_t step) { impl_->step = step; }

void Logger::SetTrace(const std::string& trace_id) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->trace_id = trace_id;
}
std::string Logger::trace_id() const {
  absl::MutexLock lock(&impl_->mutex);
  return impl_->trace_id;
}

bool Logger::Logs(LogLevel level) const { return impl_->logger.should_log(RowOf(level).spdlog_level); }

void Logger::Log(LogLevel level, std::string_view message) {
  if (!Logs(level)) return;
  const LevelRow& row = RowOf(level);
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", impl_->clock.Now(), absl::UTCTimeZone());
  line["level"] = row.name;
  line["rank"] = NumberOrNull(impl_->rank);
  line["generation"] = NumberOrNull(impl_->generation);
  line["step"] = NumberOrNull(impl_->step);
  const std::string trace = trace_id();
  line["trace_id"] = trace.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(trace);
  line["message"] = message;
  // Bytes that are not UTF-8 become U+FFFD: a log line is always valid JSON.
  impl_->logger.log(row.spdlog_level, line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace zerofleet::services
