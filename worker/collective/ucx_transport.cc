// UCX handles, requests and waiting. What UCX does beyond moving bytes (signal handlers, warnings) is switched off
// here, since the process has its own.
#include "worker/collective/ucx_transport.h"

#include <poll.h>
#include <sched.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "worker/collective/unreachable.h"

namespace zerofleet::collective {
namespace {

// How long to poll before sleeping: long enough that a message between running peers costs no system call, short enough
// to leave the core to a compute thread that needs it.
constexpr double kSpinSeconds = 20e-6;
constexpr int kProgressPerClock = 16;
// A forced close involves no peer, but takes some rounds of progress.
constexpr absl::Duration kCloseLimit = absl::Seconds(1);
constexpr absl::Duration kSleepLimit = absl::Milliseconds(50);
// In a tag: the bit that distinguishes messages from greetings, and the bits that count messages.
constexpr uint64_t kMessageBit = uint64_t{1} << 63, kPositions = (1 << 24) - 1;

// UCX's own error texts do not mention variables that restrict which transports it may use.
absl::Status UcxError(ucs_status_t status, const std::string& what) {
  std::string text = absl::StrCat("ucx: ", what, ": ", ucs_status_string(status));
  for (const char* name : {"UCX_TLS", "UCX_NET_DEVICES"}) {
    if (const char* value = std::getenv(name)) absl::StrAppend(&text, "; ", name, " is ", value, " here");
  }
  return absl::UnavailableError(text);
}

// A peer that closed the connection, or has ended, was reachable; only a peer that stays silent may be unreachable.
bool IsReset(ucs_status_t status) { return status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_REJECTED; }

// UCX reads its environment when it is loaded; this sets what the environment does not.
void QuietUcx() {
  for (int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGHUP}) ucs_debug_disable_signal(signal);
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  if (std::getenv("UCX_HANDLE_ERRORS") == nullptr) ucs_global_opts_set_value("HANDLE_ERRORS", "none");
}

// Sets UCX_`name`, unless the environment has it.
void Configure(ucp_config_t* config, const char* name, const char* value) {
  if (std::getenv(absl::StrCat("UCX_", name).c_str()) == nullptr) ucp_config_modify(config, name, value);
}

ucp_request_param_t HostMemory() {
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  return parameters;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Create() {
  static absl::once_flag quiet;
  absl::call_once(quiet, QuietUcx);
  std::unique_ptr<UcxTransport> transport(new UcxTransport);

  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return UcxError(status, "reading its configuration");
  Configure(config, "RNDV_SCHEME", "get_zcopy");  // the receiver fetches the data
  Configure(config, "MEMTYPE_CACHE", "n");
  ucp_params_t parameters = {};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  status = ucp_init(&parameters, config, &transport->context_);
  ucp_config_release(config);
  if (status != UCS_OK) return UcxError(status, "creating a context");

  ucp_worker_params_t worker = {};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(transport->context_, &worker, &transport->worker_);
  if (status != UCS_OK) return UcxError(status, "creating a worker");
  status = ucp_worker_get_efd(transport->worker_, &transport->event_descriptor_);
  if (status != UCS_OK) return UcxError(status, "getting the event descriptor");
  return transport;
}

UcxTransport::~UcxTransport() {
  if (!Close()) return;  // a worker with messages in transit cannot be destroyed: its memory leaks
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

std::string UcxTransport::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (ucp_worker_get_address(worker_, &address, &bytes) != UCS_OK) return "";
  std::string copy(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return copy;
}

absl::Status UcxTransport::Join(std::vector<std::string> addresses, Place place) {
  ZF_CHECK(addresses_.empty());
  if (addresses[place.rank] != address()) {
    return absl::InvalidArgumentError(absl::StrCat("the address of rank ", place.rank, " is not this process's own"));
  }
  place_ = std::move(place);
  addresses_ = std::move(addresses);
  peers_.resize(addresses_.size());
  nonce_ = DrawNonce();
  return absl::OkStatus();
}

absl::Status UcxTransport::Connect(const Interrupt& interrupt) {
  ZF_CHECK(!connected_);
  const absl::Status status = GreetEveryRank(interrupt);
  connected_ = status.ok();
  if (!connected_) Close(greeting_);
  return status;
}

// The higher of two ranks calls, and the lower one answers over the connection that results. If both called at once,
// UCX 1.13 would end the process when one closes or dies before they have agreed on a connection (docs/decisions/0005).
// Ranks cannot wait in a circle, since every rank calls before it waits for anything.
absl::Status UcxTransport::GreetEveryRank(const Interrupt& interrupt) {
  const int size = static_cast<int>(peers_.size());
  for (int peer = 0; peer < place_.rank; peer++) {
    ZF_RETURN_IF_ERROR(CreateEndpoint(peer));
    ZF_RETURN_IF_ERROR(Greet(peer, GreetingStep::kCall));
  }
  for (int peer = place_.rank + 1; peer < size; peer++) {
    ZF_RETURN_IF_ERROR(Hear(peer, GreetingStep::kCall, interrupt));
    ZF_RETURN_IF_ERROR(CreateEndpoint(peer));
    ZF_RETURN_IF_ERROR(Greet(peer, GreetingStep::kAnswer));
  }
  for (int peer = 0; peer < place_.rank; peer++) {
    ZF_RETURN_IF_ERROR(Hear(peer, GreetingStep::kAnswer, interrupt));
    ZF_RETURN_IF_ERROR(Greet(peer, GreetingStep::kConfirm));
    AgreeOnTags(peer);
  }
  for (int peer = place_.rank + 1; peer < size; peer++) {
    ZF_RETURN_IF_ERROR(Hear(peer, GreetingStep::kConfirm, interrupt));
    AgreeOnTags(peer);
  }
  ZF_RETURN_IF_ERROR(Wait(greeting_, interrupt));
  greeting_.clear();
  greetings_.clear();
  return absl::OkStatus();
}

absl::Status UcxTransport::Greet(int peer, GreetingStep step) {
  greetings_.push_back({nonce_, ProofFor(step, place_.rank, peer)});
  ZF_ASSIGN_OR_RETURN(Request request,
                      SendTagged(peer, GreetingTag(place_.rank, step), &greetings_.back(), sizeof(Greeting)));
  greeting_.push_back(request);
  return absl::OkStatus();
}

absl::Status UcxTransport::Hear(int peer, GreetingStep step, const Interrupt& interrupt) {
  Greeting& heard = greetings_.emplace_back();
  while (true) {
    ZF_ASSIGN_OR_RETURN(Request request, ReceiveTagged(peer, GreetingTag(peer, step), &heard, sizeof(Greeting)));
    greeting_.push_back(request);
    const absl::Status status = Wait({&greeting_.back(), 1}, interrupt);
    if (!status.ok() && !absl::IsInternal(status)) return status;
    // A confirmation has to come from the process that called, so it keeps the call's nonce.
    if (step != GreetingStep::kConfirm) peers_[peer].nonce = heard.nonce;
    if (status.ok() && SameProof(heard.proof, ProofFor(step, peer, place_.rank))) return absl::OkStatus();
    greeting_.pop_back();
    place_.trust.refused(absl::StrCat("refused a peer that says it is rank ", peer, " of group ", place_.group,
                                      " in generation ", place_.generation,
                                      ": it has not proved that it has the view's key"));
  }
}

Proof UcxTransport::ProofFor(GreetingStep step, int from, int to) const {
  const int other = from == place_.rank ? to : from;
  const bool calls = place_.rank > other;
  ProofOf what{.step = step,
               .generation = place_.generation,
               .group = place_.group,
               .from = from,
               .to = to,
               .callers = calls ? nonce_ : peers_[other].nonce};
  if (step != GreetingStep::kCall) what.answerers = calls ? peers_[other].nonce : nonce_;
  return Prove(place_.trust.key, what);
}

void UcxTransport::AgreeOnTags(int peer) {
  const auto secret = [&](int from, int to) {
    const Proof proof = ProofFor(GreetingStep::kMessages, from, to);
    uint64_t bits = 0;
    std::memcpy(&bits, proof.data(), sizeof(bits));
    return kMessageBit | static_cast<uint64_t>(from) << 47 | (bits & 0x7fffff) << 24;
  };
  peers_[peer].sending = secret(place_.rank, peer);
  peers_[peer].hearing = secret(peer, place_.rank);
}

absl::Status UcxTransport::CreateEndpoint(int peer) {
  ucp_ep_params_t parameters = {};
  parameters.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(addresses_[peer].data());
  // Without this mode UCX ends the process when a peer dies in the middle of a message, and an endpoint with messages
  // in transit cannot be closed.
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};  // nothing to do: the requests concerned fail
  const ucs_status_t status = ucp_ep_create(worker_, &parameters, &peers_[peer].endpoint);
  return status == UCS_OK ? absl::OkStatus() : PeerError(status, "connecting to rank ", peer);
}

uint64_t UcxTransport::GreetingTag(int source, GreetingStep step) const {
  return (place_.generation & 0x7fff) << 48 | static_cast<uint64_t>(source) << 32 | static_cast<uint64_t>(step);
}

absl::StatusOr<UcxTransport::Request> UcxTransport::Send(int peer, const void* data, int64_t bytes) {
  return SendTagged(peer, peers_[peer].sending | (peers_[peer].sent++ & kPositions), data, bytes);
}

absl::StatusOr<UcxTransport::Request> UcxTransport::Receive(int peer, void* data, int64_t bytes) {
  return ReceiveTagged(peer, peers_[peer].hearing | (peers_[peer].received++ & kPositions), data, bytes);
}

absl::StatusOr<UcxTransport::Request> UcxTransport::SendTagged(int peer, uint64_t tag, const void* data,
                                                               int64_t bytes) {
  const ucp_request_param_t parameters = HostMemory();
  void* handle = ucp_tag_send_nbx(peers_[peer].endpoint, data, bytes, tag, &parameters);
  if (UCS_PTR_IS_ERR(handle)) return PeerError(UCS_PTR_STATUS(handle), "sending to rank ", peer);
  return Request{.handle = handle, .bytes = bytes, .peer = peer, .receive = false};
}

absl::StatusOr<UcxTransport::Request> UcxTransport::ReceiveTagged(int peer, uint64_t tag, void* data, int64_t bytes) {
  ucp_request_param_t parameters = HostMemory();
  parameters.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // the request holds the length
  void* handle = ucp_tag_recv_nbx(worker_, data, bytes, tag, ~uint64_t{0}, &parameters);
  if (UCS_PTR_IS_ERR(handle)) return PeerError(UCS_PTR_STATUS(handle), "receiving from rank ", peer);
  return Request{.handle = handle, .bytes = bytes, .peer = peer, .receive = true};
}

absl::Status UcxTransport::Test(Request& request, bool* done) {
  if (request.handle == nullptr) {
    *done = true;
    return absl::OkStatus();
  }
  ucp_tag_recv_info_t info = {};
  const ucs_status_t status =
      request.receive ? ucp_tag_recv_request_test(request.handle, &info) : ucp_request_check_status(request.handle);
  *done = status != UCS_INPROGRESS;
  if (!*done) return absl::OkStatus();
  ucp_request_free(std::exchange(request.handle, nullptr));
  if (status == UCS_ERR_MESSAGE_TRUNCATED ||
      (status == UCS_OK && request.receive && info.length != static_cast<size_t>(request.bytes))) {
    return absl::InternalError(absl::StrCat("ranks disagree on the schedule: rank ", request.peer,
                                            " sent a message that is not ", request.bytes, " bytes long"));
  }
  if (status == UCS_OK) return absl::OkStatus();
  return PeerError(status, request.receive ? "receiving from rank " : "sending to rank ", request.peer);
}

absl::Status UcxTransport::PeerError(int status, const char* what, int peer) const {
  const auto code = static_cast<ucs_status_t>(status);
  absl::Status error = UcxError(code, absl::StrCat(what, peer));
  return IsReset(code) ? error : WithUnreachablePeer(std::move(error), {place_.group, peer});
}

absl::Status UcxTransport::Wait(std::span<Request> requests, const Interrupt& interrupt) {
  const Clock& clock = Clock::Real();
  double spin_until = clock.MonotonicSeconds() + kSpinSeconds;
  for (size_t next = 0; next < requests.size();) {
    ZF_RETURN_IF_ERROR(interrupt());
    unsigned events = 0;
    for (int i = 0; i < kProgressPerClock; i++) events += ucp_worker_progress(worker_);
    const size_t before = next;
    for (bool done = true; next < requests.size(); next++) {
      ZF_RETURN_IF_ERROR(Test(requests[next], &done));
      if (!done) break;
    }
    if (next == requests.size()) break;
    const double now = clock.MonotonicSeconds();
    if (next > before || events > 0) spin_until = now + kSpinSeconds;
    if (now < spin_until) continue;
    if (!Sleep(kSleepLimit)) continue;
    spin_until = clock.MonotonicSeconds() + kSpinSeconds;
  }
  return absl::OkStatus();
}

bool UcxTransport::Sleep(absl::Duration limit) {
  if (ucp_worker_arm(worker_) != UCS_OK) return false;  // busy: events arrived in between
  pollfd descriptor = {.fd = event_descriptor_, .events = POLLIN, .revents = 0};
  poll(&descriptor, 1, static_cast<int>(absl::ToInt64Milliseconds(limit)));
  return true;
}

void UcxTransport::ProgressAndSleep(absl::Duration limit) {
  while (ucp_worker_progress(worker_) > 0) continue;
  Sleep(limit);
}

void UcxTransport::Signal() { ucp_worker_signal(worker_); }

bool UcxTransport::Close(std::span<Request> requests) {
  std::vector<Request> closing;
  for (Request& request : requests) {
    if (request.handle == nullptr) continue;
    if (request.receive) ucp_request_cancel(worker_, request.handle);
    closing.push_back(std::exchange(request, Request{}));
  }
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    void* handle = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &parameters);
    if (handle != nullptr && !UCS_PTR_IS_ERR(handle)) closing.push_back(Request{.handle = handle});
  }
  const double deadline = Clock::Real().MonotonicSeconds() + absl::ToDoubleSeconds(kCloseLimit);
  for (Request& request : closing) {
    while (request.handle != nullptr && ucp_request_check_status(request.handle) == UCS_INPROGRESS) {
      if (Clock::Real().MonotonicSeconds() > deadline) return closed_ = false;
      ucp_worker_progress(worker_);
    }
    if (request.handle != nullptr) ucp_request_free(request.handle);
  }
  return closed_;
}

void UcxTransport::Flush(absl::Duration limit) {
  if (!is_connected()) return;
  ucp_request_param_t parameters = {};
  void* handle = ucp_worker_flush_nbx(worker_, &parameters);
  if (handle == nullptr || UCS_PTR_IS_ERR(handle)) return;
  Request request{.handle = handle};
  const double deadline = Clock::Real().MonotonicSeconds() + absl::ToDoubleSeconds(limit);
  // If a peer left before this rank, flushing its endpoint fails, which is as good as done.
  Wait({&request, 1}, [deadline] {
    return Clock::Real().MonotonicSeconds() < deadline ? absl::OkStatus() : absl::DeadlineExceededError("flush");
  }).IgnoreError();
  if (request.handle != nullptr) ucp_request_free(request.handle);
}

}  // namespace zerofleet::collective
