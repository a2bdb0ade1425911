// The limits as tables; see message_limits.h.
#include "services/common/message_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/placement.h"

namespace zerofleet::services {
namespace {

using Body = v1::WorkerMessage::BodyCase;

constexpr size_t kMostText = 2048;  // bytes of a text for people
// The parts of a shard record: a fixed part, mostly the list of data files (data::kMostListedBytes), and for each layer
// a dozen tensors of some 80 bytes and a range.
constexpr int64_t kShardRecordBytes = 512 << 10, kShardRecordBytesPerLayer = 2 << 10, kMostShardRecordBytes = 24 << 20;

struct SizeLimit {
  Body body;
  const char* name;
  size_t bytes;
};
constexpr SizeLimit kSizeLimits[] = {
    {Body::kHello, "Hello", 4 << 10},
    {Body::kReady, "Ready", 192 << 10},  // holds a transport address, 1 or 2 KB per network device, and a flight
    {Body::kEntered, "Entered", 1 << 10},
    {Body::kPeersWanted, "PeersWanted", 1 << 10},
    {Body::kLoadResult, "LoadResult", 16 << 10},
    {Body::kHeartbeat, "Heartbeat", 16 << 10},
    {Body::kEvent, "Event", 32 << 10},  // a histogram with values in each of its 1,551 buckets takes 20 KB
    {Body::kShardWritten, "ShardWritten", kMostShardRecordBytes},
    {Body::kFailure, "Failure", 64 << 10},
    {Body::kFinished, "Finished", 256 << 10},  // holds a rank's report
    {Body::kStopRequested, "StopRequested", 1 << 10},
    {Body::BODY_NOT_SET, "a message without a body", 1 << 10},
};

constexpr size_t kMostHostName = 253;  // the longest name that DNS allows

struct HelloLimit {
  const char* name;
  const std::string& (v1::Hello::*value)() const;
  size_t bytes;
};
constexpr HelloLimit kHelloLimits[] = {
    {"build_id", &v1::Hello::build_id, 128},
    {"version", &v1::Hello::version, 64},
    {"host", &v1::Hello::host, kMostHostName},
    {"node_name", &v1::Hello::node_name, kMostHostName},
    {"device", &v1::Hello::device, 16},
    {"device_description", &v1::Hello::device_description, 256},
    {"metrics_address", &v1::Hello::metrics_address, 260},
    {"service_address", &v1::Hello::service_address, 260},
    {"incarnation", &v1::Hello::incarnation, 128},
};

constexpr size_t kMostDigest = 128;
// Bytes of a Hello that describes a view: some 50 for each rank of a small one, at most 8 for each node of a large one.
constexpr size_t kMostRejoin = 256 << 10;

constexpr size_t kMostTransportAddress = 62 << 10;
constexpr int kMostFlightEntries = 256;
constexpr int kMostSnapshots = 8;
constexpr int kMostFacts = 32;
constexpr size_t kMostFactName = 64, kMostFactValue = 256;
constexpr int kMostGroups = 16;
constexpr size_t kMostGroupName = 64, kMostUnitName = 256;

absl::Status CheckText(const char* message, const char* field, const std::string& value, size_t most) {
  if (value.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(message, ".", field, " has ", value.size(), " bytes; at most ", most, " are allowed"));
  }
  if (PrintableText(value, most) == value) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(message, ".", field, " has characters that cannot be printed"));
}

absl::Status CheckHello(const v1::Hello& hello) {
  for (const HelloLimit& limit : kHelloLimits) {
    ZF_RETURN_IF_ERROR(CheckText("Hello", limit.name, (hello.*limit.value)(), limit.bytes));
  }
  for (const v1::Member& member : hello.rejoin().assignment().members()) {
    ZF_RETURN_IF_ERROR(CheckText("Rejoin", "host", member.host(), kMostHostName));
    ZF_RETURN_IF_ERROR(CheckText("Rejoin", "node_name", member.node_name(), kMostHostName));
  }
  ZF_RETURN_IF_ERROR(CheckText("Rejoin", "config_digest", hello.rejoin().config_digest(), kMostDigest));
  const double seconds = hello.rejoin().training_seconds();
  if (std::isfinite(seconds) && seconds >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError("Rejoin.training_seconds must be >= 0");
}

absl::Status CheckEnvironment(const char* message, const google::protobuf::RepeatedPtrField<v1::Fact>& environment) {
  bool fits = environment.size() <= kMostFacts;
  for (const v1::Fact& fact : environment) {
    fits = fits && PrintableText(fact.name(), kMostFactName) == fact.name() &&
           PrintableText(fact.value(), kMostFactValue) == fact.value();
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(message, ".environment has more than ", kMostFacts,
                                                 " facts, or one that is too long or cannot be printed"));
}

absl::Status CheckReady(const v1::Ready& ready) {
  bool fits = ready.flight().entries_size() <= kMostFlightEntries;
  for (const v1::FlightEntry& entry : ready.flight().entries()) {
    for (const auto& [name, most] : {std::pair{&entry.group(), kMostGroupName},
                                     {&entry.operation(), kMostGroupName},
                                     {&entry.unit(), kMostUnitName}}) {
      fits = fits && name->size() <= most && PrintableText(*name, most) == *name;
    }
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("Ready.flight has more than ", kMostFlightEntries,
                                                   " entries, or a name that is too long or cannot be printed"));
  }
  if (ready.snapshots_size() > kMostSnapshots) {
    return absl::InvalidArgumentError(absl::StrCat("Ready.snapshots has ", ready.snapshots_size(), " entries; at most ",
                                                   kMostSnapshots, " are allowed"));
  }
  if (ready.transport_address().size() > kMostTransportAddress) {
    return absl::InvalidArgumentError(absl::StrCat("Ready.transport_address has ", ready.transport_address().size(),
                                                   " bytes; at most ", kMostTransportAddress, " are allowed"));
  }
  ZF_RETURN_IF_ERROR(CheckEnvironment("Ready", ready.environment()));
  return CheckText("Ready", "config_digest", ready.config_digest(), kMostDigest);
}

absl::Status CheckEntered(const v1::Entered& entered) {
  ZF_RETURN_IF_ERROR(CheckText("Entered", "layout_digest", entered.layout_digest(), kMostDigest));
  return CheckText("Entered", "schedule_digest", entered.schedule_digest(), kMostDigest);
}

absl::Status CheckPeersWanted(const v1::PeersWanted& wanted) {
  if (wanted.ranks_size() <= coordinator::kMostPeersWanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("PeersWanted.ranks has ", wanted.ranks_size(), " entries; at most ",
                                                 coordinator::kMostPeersWanted, " are allowed"));
}

absl::Status CheckShard(const v1::ShardWritten& shard) {
  ZF_RETURN_IF_ERROR(CheckEnvironment("ShardWritten", shard.environment()));
  return CheckText("ShardWritten", "config_digest", shard.config_digest(), kMostDigest);
}

absl::Status CheckHeartbeat(const v1::Heartbeat& heartbeat) {
  bool fits = heartbeat.progress_size() <= kMostGroups;
  for (const v1::GroupProgress& progress : heartbeat.progress()) {
    fits = fits && progress.group().size() <= kMostGroupName && progress.operation().size() <= kMostGroupName &&
           progress.unit().size() <= kMostUnitName;
  }
  const v1::Pace& pace = heartbeat.pace();
  for (const double seconds : {pace.data(), pace.forward(), pace.backward(), pace.optimizer()}) {
    if (!(seconds >= 0 && std::isfinite(seconds))) {
      return absl::InvalidArgumentError(absl::StrCat("Heartbeat.pace must be >= 0 seconds, got ", seconds));
    }
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Heartbeat.progress has more than ", kMostGroups, " groups or a name that is too long"));
}

void CutText(v1::Failure* failure) {
  failure->set_message(PrintableText(failure->message(), kMostText));
  if (!failure->has_divergence()) return;
  failure->mutable_divergence()->set_cause(PrintableText(failure->divergence().cause(), kMostText));
}

void CutTexts(v1::WorkerMessage& message) {
  if (message.has_failure()) CutText(message.mutable_failure());
  if (message.load_result().has_failure()) CutText(message.mutable_load_result()->mutable_failure());
  if (message.shard_written().has_failure()) CutText(message.mutable_shard_written()->mutable_failure());
  if (message.event().has_notice()) {
    v1::NoticeEvent* notice = message.mutable_event()->mutable_notice();
    notice->set_message(PrintableText(notice->message(), kMostText));
  }
}

// Whether it is a control character of either range: terminals act on U+0080 to U+009F too.
bool IsControl(const std::string& text, size_t at, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (length == 1) return absl::ascii_iscntrl(byte(at));
  return length == 2 && byte(at) == 0xC2 && byte(at + 1) < 0xA0;
}

// The length of the valid UTF-8 sequence at `text[at]`, 0 if there is none.
size_t SequenceLength(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = lead < 0x80 ? 1 : (lead >> 5) == 6 ? 2 : (lead >> 4) == 14 ? 3 : (lead >> 3) == 30 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = at + 1; i < at + length; ++i) {
    if ((byte(i) >> 6) != 2) return 0;
  }
  return length;
}

}  // namespace

int MostMessageBytes(const v1::Config& config) {
  const int64_t bytes =
      kShardRecordBytes +
      kShardRecordBytesPerLayer * std::max<int64_t>(config.model().layers(), config.model().foreign().units_size());
  return static_cast<int>(std::clamp(bytes, kShardRecordBytes, kMostShardRecordBytes));
}

absl::Status AdmitMessage(size_t bytes, v1::WorkerMessage& message) {
  for (const SizeLimit& limit : kSizeLimits) {
    const size_t most = message.hello().has_rejoin() ? kMostRejoin : limit.bytes;
    if (limit.body != message.body_case() || bytes <= most) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(limit.name, " has ", bytes, " bytes; at most ", most, " are allowed"));
  }
  if (message.has_hello()) return CheckHello(message.hello());
  if (message.has_ready()) return CheckReady(message.ready());
  if (message.has_entered()) return CheckEntered(message.entered());
  if (message.has_peers_wanted()) return CheckPeersWanted(message.peers_wanted());
  if (message.has_heartbeat()) return CheckHeartbeat(message.heartbeat());
  if (message.has_shard_written()) ZF_RETURN_IF_ERROR(CheckShard(message.shard_written()));
  CutTexts(message);
  return absl::OkStatus();
}

std::string PrintableText(const std::string& text, size_t most) {
  std::string printable;
  size_t at = 0;
  while (at < text.size() && printable.size() < most) {
    const size_t length = SequenceLength(text, at);
    if (length == 0 || IsControl(text, at, length)) {
      printable += absl::ascii_isspace(static_cast<unsigned char>(text[at])) ? ' ' : '?';
      at += std::max<size_t>(1, length);
    } else {
      printable.append(text, at, length);
      at += length;
    }
  }
  if (at < text.size()) absl::StrAppend(&printable, "... (", text.size() - at, " bytes more)");
  return printable;
}

}  // namespace zerofleet::services
