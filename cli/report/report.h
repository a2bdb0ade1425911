// The report of a run: one JSON object per event, one per line, for scripts and dashboards.
#ifndef ZEROFLEET_CLI_REPORT_REPORT_H_
#define ZEROFLEET_CLI_REPORT_REPORT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::cli {

// The line of `event`, without its newline: "event" first, then "time", then the fields. Empty for an event that
// reports leave out (a failure, a notice).
std::string ReportLine(const v1::Event& event);

// Appends to a report file. Lines that other runs wrote to it are kept, except for a last line that a full disk or a
// crash cut short.
class ReportWriter {
 public:
  // The most bytes that are buffered for a pipe whose reader is slow; with more, the report is abandoned, not the run.
  static constexpr size_t kMostWaiting = 16 << 20;

  // InvalidArgument, naming the path, if it cannot be opened for appending, if it is a FIFO without a reader, or if it
  // ends in text without a newline that does not begin like a report's line. Never waits.
  static absl::StatusOr<std::unique_ptr<ReportWriter>> Open(const std::string& path);
  ~ReportWriter();
  ReportWriter(const ReportWriter&) = delete;
  ReportWriter& operator=(const ReportWriter&) = delete;

  // Writes the event's line with one write; what a full pipe does not accept is buffered and written later. Never
  // waits. After a failure nothing more is written, so that no line follows a torn one.
  void Write(const v1::Event& event);

  // Waits up to `seconds` for a pipe's reader to take what is buffered. What is left then is lost, and the status says
  // so.
  const absl::Status& Finish(double seconds);

  // One line that says what Open has cut off; empty if nothing.
  const std::string& note() const { return note_; }

  // ResourceExhausted, naming the path, if a line could not be written.
  const absl::Status& status() const { return status_; }

 private:
  // Writes as much of the buffer as the descriptor accepts.
  void Flush();
  void Fail(const std::string& why);

  // Makes a regular file end with a whole line: completes the last one or cuts it off.
  absl::Status MendEnd();

  ReportWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  const std::string path_;
  const int descriptor_;
  std::string waiting_, note_;
  absl::Status status_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_REPORT_H_
