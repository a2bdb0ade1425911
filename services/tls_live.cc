// Watching PEM files and verifying clients by OpenSSL; see tls_live.h.
#include "services/tls_live.h"

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
#include "openssl/x509.h"
#include "openssl/x509v3.h"
#include "services/message_limits.h"

namespace zerofleet::services {
namespace {

constexpr size_t kMostSubject = 256;
constexpr int kSecurityLevel = 2;  // Debian's for connections: keys of 112 bits' strength, no SHA-1

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
void FreeStack(STACK_OF(X509) * stack) { sk_X509_pop_free(stack, X509_free); }
using Certificates = std::unique_ptr<STACK_OF(X509), Freer<STACK_OF(X509), FreeStack>>;
using Store = std::unique_ptr<X509_STORE, Freer<X509_STORE, X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX, X509_STORE_CTX_free>>;

// What tells that a file has been exchanged: one that a link leads to, too.
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
  ERR_clear_error();  // the end of the text is one
  return all;
}

std::string SubjectOf(X509* certificate) {
  char text[kMostSubject];
  X509_NAME_oneline(X509_get_subject_name(certificate), text, sizeof(text));
  return PrintableText(text, kMostSubject);
}

// The authority's certificates; none: clients are not asked for theirs.
std::shared_ptr<X509_STORE> StoreOf(const TlsTexts& texts) {
  if (texts.ca.empty()) return nullptr;
  Store store(X509_STORE_new());
  const Certificates trusted = ParseAll(texts.ca);
  for (int i = 0; i < sk_X509_num(trusted.get()); ++i)
    X509_STORE_add_cert(store.get(), sk_X509_value(trusted.get(), i));
  ERR_clear_error();  // one that is in the file twice
  // As gRPC's clients verify servers: an authority between the root and the certificate may be all that is trusted.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  return store;
}

}  // namespace

struct LiveCertificates::Impl {
  TlsFiles files;
  Warn warn;
  FileMarks marks;  // of the thread's, once that has begun

  absl::Mutex mutex;
  std::shared_ptr<X509_STORE> authority ABSL_GUARDED_BY(mutex);

  absl::Notification closing;
  std::thread watcher;  // last: it uses the others

  // Marks are taken before the files are read: what changes meanwhile is read next time.
  absl::Status Reread() {
    marks = MarksOf(files);
    ZF_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTls(files));
    std::shared_ptr<X509_STORE> read = StoreOf(texts);
    absl::MutexLock lock(&mutex);
    authority = std::move(read);
    return absl::OkStatus();
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
  std::shared_ptr<X509_STORE> authority;
  {
    absl::MutexLock lock(&impl_->mutex);
    authority = impl_->authority;
  }
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

}  // namespace zerofleet::services
