// A run's figures as the event files that TensorBoard reads: records with a length and checksums, each a message Event
// of tensorflow/core/util/event.proto with one scalar or histogram.
#ifndef ZEROFLEET_CLI_REPORT_TENSORBOARD_H_
#define ZEROFLEET_CLI_REPORT_TENSORBOARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/report/run_file.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::cli {

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t Crc32c(std::string_view bytes);

// The name of the directory that each report file gets in TensorBoard's: the file's own name without its extension or,
// where two files have the same, as much of their paths as distinguishes them. InvalidArgument if a file is given
// twice.
absl::StatusOr<std::vector<std::string>> RunDirectories(const std::vector<std::string>& reports);

class TensorBoardWriter {
 public:
  // Creates `directory` if it is missing, and a new file in it: a run that is resumed gets another file. Errors name
  // the path.
  static absl::StatusOr<std::unique_ptr<TensorBoardWriter>> Open(const std::string& directory, double unix_seconds);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // Writes the figures of a step or an evaluation, or a histogram; ignores other events. After a failure nothing more
  // is written.
  void Write(const v1::Event& event);
  // Writes all figures of a report file.
  void Write(const RunFile& run);

  // ResourceExhausted, naming the path, if a record could not be written.
  const absl::Status& status() const { return status_; }

 private:
  TensorBoardWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  void Scalar(std::string_view tag, int64_t step, double value, double unix_seconds);
  void Histogram(const v1::HistogramEvent& histogram, double unix_seconds);
  void Step(int64_t number, const ReportedStep& step, double unix_seconds);
  void Evaluation(const ReportedEvaluation& evaluation, double unix_seconds);
  void Record(const std::string& event);

  const std::string path_;
  const int descriptor_;
  absl::Status status_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_TENSORBOARD_H_
