// Watching PEM files and verifying clients by OpenSSL; see tls_live.h.
#include "services/security/tls_live.h"

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"
#include "services/common/message_limits.h"

namespace zerofleet::services {
namespace {

constexpr size_t kMostSubject = 256;
constexpr int kSecurityLevel = 2;  // Debian's level for connections: keys of 112 bits' strength, no SHA-1

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
void FreeStack(STACK_OF(X509) * stack) { sk_X509_pop_free(stack, X509_free); }
using Certificates = std::unique_ptr<STACK_OF(X509), Freer<STACK_OF(X509), FreeStack>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using Store = std::unique_ptr<X509_STORE, Freer<X509_STORE, X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX, X509_STORE_CTX_free>>;

// A mark that changes when the file is replaced, also if the path is a link to it.
using FileMark = std::tuple<int64_t, int64_t, uint64_t, uint64_t>;
FileMark MarkOf(const std::string& path) {
  struct stat found = {};
  if (path.empty() || stat(path.c_str(), &found) != 0) return {};
  return {found.st_mtim.tv_sec, found.st_mtim.tv_nsec, found.st_ino, static_cast<uint64_t>(found.st_size)};
}
using FileMarks = std::array<FileMark, 3>;
FileMarks MarksOf(const TlsFiles& files) { return {MarkOf(files.ca), MarkOf(files.certificate), MarkOf(files.key)}; }

// All certificates of a PEM text, in order.
Certificates ParseAll(absl::string_view text) {
  Certificates all(sk_X509_new_null());
  const std::unique_ptr<BIO, decltype(&BIO_free)> reader(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
                                                         &BIO_free);
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) sk_X509_push(all.get(), one);
  ERR_clear_error();  // the end of the text is an error
  return all;
}

std::string SubjectOf(X509* certificate) {
  char text[kMostSubject];
  X509_NAME_oneline(X509_get_subject_name(certificate), text, sizeof(text));
  return PrintableText(text, kMostSubject);
}

Key ParseKey(const std::string& text) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> reader(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
                                                         &BIO_free);
  return Key(PEM_read_bio_PrivateKey(reader.get(), nullptr, nullptr, nullptr));
}

// The files' contents when they were read.
struct Loaded {
  Certificates own;  // the server's own certificate, then the intermediate ones
  Key key;
  std::shared_ptr<X509_STORE> authority;  // none: clients are not asked for certificates
};

// The authority's certificates; none: clients are not asked for theirs.
std::shared_ptr<X509_STORE> StoreOf(const TlsTexts& texts) {
  if (texts.ca.empty()) return nullptr;
  Store store(X509_STORE_new());
  const Certificates trusted = ParseAll(texts.ca);
  for (int i = 0; i < sk_X509_num(trusted.get()); ++i)
    X509_STORE_add_cert(store.get(), sk_X509_value(trusted.get(), i));
  ERR_clear_error();  // a certificate that is in the file twice is an error
  // The flags with which gRPC's clients verify servers: an intermediate authority alone may be trusted, without the
  // root.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  return store;
}

}  // namespace

struct LiveCertificates::Impl {
  TlsFiles files;
  Warn warn;
  FileMarks marks;  // used only by the thread, once that has started

  absl::Mutex mutex;
  std::shared_ptr<const Loaded> loaded ABSL_GUARDED_BY(mutex);

  absl::Notification closing;
  std::thread watcher;  // last: it uses the others

  // Takes marks before it reads the files, so that a change in between is read the next time.
  absl::Status Reread() {
    marks = MarksOf(files);
    ZF_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTls(files));
    auto read = std::make_shared<Loaded>();
    read->own = ParseAll(texts.certificate);
    if (!texts.key.empty()) read->key = ParseKey(texts.key);
    read->authority = StoreOf(texts);
    absl::MutexLock lock(&mutex);
    loaded = std::move(read);
    return absl::OkStatus();
  }

  std::shared_ptr<const Loaded> Current() {
    absl::MutexLock lock(&mutex);
    return loaded;
  }

  void WatchUntilClosed() {
    while (!closing.WaitForNotificationWithTimeout(absl::Seconds(kTlsReloadSeconds))) {
      if (MarksOf(files) == marks) continue;
      const absl::Status read = Reread();
      if (!read.ok() && warn) {
        warn(absl::StrCat(std::string(read.message()), "; certificates that cannot be used are not taken over"));
      }
    }
  }
};

LiveCertificates::LiveCertificates(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LiveCertificates::~LiveCertificates() {
  impl_->closing.Notify();
  impl_->watcher.join();
}

absl::StatusOr<std::shared_ptr<LiveCertificates>> LiveCertificates::Read(const TlsFiles& files, Warn warn) {
  auto impl = std::make_unique<Impl>();
  impl->files = files;
  impl->warn = std::move(warn);
  ZF_RETURN_IF_ERROR(impl->Reread());
  impl->watcher = std::thread([impl = impl.get()] { impl->WatchUntilClosed(); });
  return std::shared_ptr<LiveCertificates>(new LiveCertificates(std::move(impl)));
}

absl::Status LiveCertificates::CheckClient(absl::string_view chain) const {
  const std::shared_ptr<X509_STORE> authority = impl_->Current()->authority;
  ZF_CHECK(authority != nullptr);
  const Certificates shown = ParseAll(chain);
  if (sk_X509_num(shown.get()) == 0) return absl::PermissionDeniedError("it has shown no certificate");
  X509* const own = sk_X509_value(shown.get(), 0);
  const Verification verification(X509_STORE_CTX_new());
  if (verification == nullptr || X509_STORE_CTX_init(verification.get(), authority.get(), own, shown.get()) != 1 ||
      X509_STORE_CTX_set_default(verification.get(), "ssl_client") != 1) {
    ERR_clear_error();
    return absl::InternalError("its certificate could not be verified");
  }
  X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(verification.get()), kSecurityLevel);
  const bool valid = X509_verify_cert(verification.get()) == 1;
  ERR_clear_error();
  if (valid) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("its certificate, ", SubjectOf(own),
                   ", is not accepted: ", X509_verify_cert_error_string(X509_STORE_CTX_get_error(verification.get()))));
}

int LiveCertificates::OnHandshake(SSL* connection, void* certificates) {
  const std::shared_ptr<const Loaded> loaded =
      (*static_cast<std::shared_ptr<LiveCertificates>*>(certificates))->impl_->Current();
  Certificates between(X509_chain_up_ref(loaded->own.get()));
  const std::unique_ptr<X509, decltype(&X509_free)> own(sk_X509_shift(between.get()), &X509_free);
  if (SSL_use_cert_and_key(connection, own.get(), loaded->key.get(), between.get(), /*override=*/1) != 1) return 0;
  if (loaded->authority != nullptr) {
    SSL_set1_verify_cert_store(connection, loaded->authority.get());
    SSL_set_verify(connection, SSL_VERIFY_PEER, nullptr);
  }
  return 1;
}

void LiveCertificates::UseIn(SSL_CTX* context, std::shared_ptr<LiveCertificates> certificates) {
  using Held = std::shared_ptr<LiveCertificates>;
  static const int index = SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* held, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Held*>(held); });
  auto* const held = new Held(std::move(certificates));
  SSL_CTX_set_ex_data(context, index, held);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // No sessions are resumed, since a resumed session's certificate would not be checked again.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_cert_cb(context, &LiveCertificates::OnHandshake, held);
}

std::string LiveCertificates::WhyNotAccepted(const SSL* connection) {
  const long result = SSL_get_verify_result(connection);
  return result == X509_V_OK ? "" : X509_verify_cert_error_string(result);
}

bool LiveCertificates::MayRead(const SSL* connection) {
  return SSL_get_verify_mode(connection) == SSL_VERIFY_NONE || SSL_get0_peer_certificate(connection) != nullptr;
}

}  // namespace zerofleet::services
