// Fields of event.proto and summary.proto by their numbers; see tensorboard.h.
#include "cli/report/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"

namespace zerofleet::cli {
namespace {

// The last `parts` parts of a path, such as "b_run" for /a/b/run.jsonl and 2 parts.
std::string LastParts(std::filesystem::path path, int parts, bool extension) {
  std::string name = (extension ? path.filename() : path.stem()).string();
  for (int part = 1; part < parts; ++part) {
    path = path.parent_path();
    if (!path.has_relative_path()) break;
    name = absl::StrCat(path.filename().string(), "_", name);
  }
  return name;
}

// Wire types of protocol buffers.
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void PutKey(int field, WireType type, std::string* out) { PutVarint(static_cast<uint64_t>(field) << 3 | type, out); }

template <typename T>
void PutFixed(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PutBytes(int field, std::string_view bytes, std::string* out) {
  PutKey(field, kBytes, out);
  PutVarint(bytes.size(), out);
  out->append(bytes);
}

// The beginning of an Event: wall_time and step.
std::string EventAt(double unix_seconds, int64_t step) {
  std::string event;
  PutKey(1, kFixed64, &event);
  PutFixed(unix_seconds, &event);
  PutKey(2, kVarint, &event);
  PutVarint(static_cast<uint64_t>(step), &event);
  return event;
}

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

// The masked form in which records store a checksum: a plain CRC of data that contain CRCs would be weak.
uint32_t MaskedCrc(std::string_view bytes) {
  constexpr uint32_t kMaskDelta = 0xa282ead8;
  return std::rotr(Crc32c(bytes), 15) + kMaskDelta;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

absl::StatusOr<std::vector<std::string>> RunDirectories(const std::vector<std::string>& reports) {
  std::set<std::filesystem::path> distinct;
  std::vector<std::filesystem::path> paths;
  for (const std::string& report : reports) {
    std::error_code none;
    std::filesystem::path path = std::filesystem::weakly_canonical(report, none);
    if (path.empty()) path = report;
    if (!distinct.insert(path).second)
      return absl::InvalidArgumentError(absl::StrCat("RUN: ", report, " is given twice"));
    paths.push_back(std::move(path));
  }
  constexpr int kMostParts = 8;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    for (const bool extension : {false, true}) {
      std::vector<std::string> names;
      for (const std::filesystem::path& path : paths) names.push_back(LastParts(path, parts, extension));
      if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) return names;
    }
  }
  std::vector<std::string> numbered;
  for (const std::filesystem::path& path : paths) {
    numbered.push_back(absl::StrCat(numbered.size(), "_", LastParts(path, 1, /*extension=*/false)));
  }
  return numbered;
}

absl::StatusOr<std::unique_ptr<TensorBoardWriter>> TensorBoardWriter::Open(const std::string& directory,
                                                                           double unix_seconds) {
  ZF_RETURN_IF_ERROR(CreateDirectories(directory));
  // TensorBoard reads files whose names contain "tfevents", in the order of their names.
  const std::string path =
      JoinPath(directory, absl::StrFormat("events.out.tfevents.%010.0f.zerofleet.%d", unix_seconds, getpid()));
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot create: ", std::strerror(errno)));
  }
  std::unique_ptr<TensorBoardWriter> writer(new TensorBoardWriter(path, descriptor));
  std::string version = EventAt(unix_seconds, 0);
  PutBytes(3, "brain.Event:2", &version);
  writer->Record(version);
  return writer;
}

TensorBoardWriter::~TensorBoardWriter() { close(descriptor_); }

void TensorBoardWriter::Record(const std::string& event) {
  if (!status_.ok()) return;
  std::string length, record;
  PutFixed<uint64_t>(event.size(), &length);
  record = length;
  PutFixed(MaskedCrc(length), &record);
  record += event;
  PutFixed(MaskedCrc(event), &record);
  for (std::string_view left = record; !left.empty();) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status_ = absl::ResourceExhaustedError(absl::StrCat(path_, ": cannot write: ", std::strerror(errno)));
      return;
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
}

void TensorBoardWriter::Scalar(std::string_view tag, int64_t step, double value, double unix_seconds) {
  if (std::isnan(value)) return;
  std::string scalar, summary, event = EventAt(unix_seconds, step);
  PutBytes(1, tag, &scalar);
  PutKey(2, kFixed32, &scalar);
  PutFixed(static_cast<float>(value), &scalar);
  PutBytes(1, scalar, &summary);
  PutBytes(5, summary, &event);
  Record(event);
}

// Summary.Value.histo, a HistogramProto.
void TensorBoardWriter::Histogram(const v1::HistogramEvent& histogram, double unix_seconds) {
  std::string proto, limits, counts, value, summary, event = EventAt(unix_seconds, histogram.step());
  const double numbers[] = {histogram.least(), histogram.most(), static_cast<double>(histogram.count()),
                            histogram.sum(), histogram.sum_of_squares()};
  for (int i = 0; i < 5; ++i) {
    PutKey(1 + i, kFixed64, &proto);
    PutFixed(numbers[i], &proto);
  }
  for (const double limit : histogram.limits()) PutFixed(limit, &limits);
  for (const int64_t count : histogram.counts()) PutFixed(static_cast<double>(count), &counts);
  PutBytes(6, limits, &proto);
  PutBytes(7, counts, &proto);
  PutBytes(1, absl::StrCat(histogram.values(), "/", histogram.tensor()), &value);
  PutBytes(5, proto, &value);
  PutBytes(1, value, &summary);
  PutBytes(5, summary, &event);
  Record(event);
}

void TensorBoardWriter::Step(int64_t number, const ReportedStep& step, double unix_seconds) {
  Scalar("loss/training", number, step.loss, unix_seconds);
  Scalar("step/gradient_norm", number, step.grad_norm, unix_seconds);
  Scalar("step/learning_rate", number, step.learning_rate, unix_seconds);
  Scalar("speed/tokens_per_second", number, step.tokens_per_second, unix_seconds);
  Scalar("speed/mfu", number, step.mfu, unix_seconds);
}

void TensorBoardWriter::Evaluation(const ReportedEvaluation& evaluation, double unix_seconds) {
  const std::string set = evaluation.set.empty() ? "validation" : absl::StrCat("validation_", evaluation.set);
  Scalar(absl::StrCat("loss/", set), evaluation.step, evaluation.loss, unix_seconds);
}

void TensorBoardWriter::Write(const v1::Event& event) {
  if (event.has_step()) {
    const v1::StepEvent& step = event.step();
    Step(step.step(),
         {.loss = step.loss(),
          .grad_norm = step.grad_norm(),
          .learning_rate = step.learning_rate(),
          .tokens_per_second = step.tokens_per_second(),
          .mfu = step.mfu()},
         event.unix_seconds());
  }
  if (event.has_histogram()) Histogram(event.histogram(), event.unix_seconds());
  if (event.has_evaluate()) {
    const v1::EvaluateEvent& evaluation = event.evaluate();
    Evaluation({.step = evaluation.step(), .loss = evaluation.loss()}, event.unix_seconds());
    for (const v1::SetLoss& set : evaluation.sets()) {
      Evaluation({.step = evaluation.step(), .set = set.name(), .loss = set.loss()}, event.unix_seconds());
    }
  }
}

void TensorBoardWriter::Write(const RunFile& run) {
  for (const auto& [number, step] : run.steps) Step(number, step, step.unix_seconds);
  for (const ReportedEvaluation& evaluation : run.evaluations) Evaluation(evaluation, evaluation.unix_seconds);
}

}  // namespace zerofleet::cli
