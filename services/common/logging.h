// Logs as JSON, one object a line on stderr: time, level, rank, generation, step, trace_id, message; docs/logs.md
// and docs/log.schema.json are the schema.
//
// A Logger is passed to the code that needs it. What is not known yet (a worker's rank before its assignment, a
// coordinator's rank always) is null.
#ifndef ZEROFLEET_SERVICES_COMMON_LOGGING_H_
#define ZEROFLEET_SERVICES_COMMON_LOGGING_H_

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace zerofleet::services {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning" or "error"; InvalidArgument otherwise.
absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text);

// The level a process logs at: what `flag` says, else what the environment's ZEROFLEET_LOG_LEVEL says, else warnings.
absl::StatusOr<LogLevel> LogLevelFromFlagOrEnvironment(const std::string& flag);

// All functions are thread-safe. A line is written as a whole, and flushed.
class Logger {
 public:
  explicit Logger(LogLevel level);                                // to stderr
  Logger(LogLevel level, std::ostream& out, const Clock& clock);  // `out` and `clock` are borrowed
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // What the lines from now on say about this process.
  void SetRank(int rank);
  void SetGeneration(uint64_t generation);
  void SetStep(int64_t step);
  void SetTrace(const std::string& trace_id);  // empty: none
  std::string trace_id() const;

  bool Logs(LogLevel level) const;  // whether a line of this level is written
  void Log(LogLevel level, std::string_view message);
  void Debug(std::string_view message) { Log(LogLevel::kDebug, message); }
  void Info(std::string_view message) { Log(LogLevel::kInfo, message); }
  void Warning(std::string_view message) { Log(LogLevel::kWarning, message); }
  void Error(std::string_view message) { Log(LogLevel::kError, message); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COMMON_LOGGING_H_
