// Reading and checking PEM files; see tls_files.h.
#include "services/security/tls_files.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace zerofleet::services {
namespace {

constexpr int64_t kMaxFileBytes = 8 << 20;  // a bundle of every public authority is a quarter of a MiB

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxFileBytes);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", std::string(text.status().message())));
  return text;
}

// OpenSSL would ask for the password of an encrypted key on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

std::unique_ptr<BIO, decltype(&BIO_free)> Reader(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

absl::StatusOr<Certificate> ParseCertificate(const std::string& flag, const std::string& path,
                                             const std::string& text) {
  Certificate certificate(PEM_read_bio_X509(Reader(text).get(), nullptr, &NoPassword, nullptr), &X509_free);
  ERR_clear_error();
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", path, " holds no certificate in PEM format"));
  }
  return certificate;
}

absl::Status CheckPair(const TlsFiles& files, const TlsTexts& texts) {
  ZF_ASSIGN_OR_RETURN(const Certificate certificate,
                      ParseCertificate(kCertificateFlag, files.certificate, texts.certificate));
  const Key key(PEM_read_bio_PrivateKey(Reader(texts.key).get(), nullptr, &NoPassword, nullptr), &EVP_PKEY_free);
  const bool match = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(kKeyFlag, ": ", files.key, " holds no private key in PEM format without a password"));
  }
  if (match) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(kKeyFlag, ": ", files.key, " is not the key of the certificate in ",
                                                 files.certificate, " (", kCertificateFlag, ")"));
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTls(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    const bool no_key = files.key.empty();
    return absl::InvalidArgumentError(absl::StrCat(no_key ? kCertificateFlag : kKeyFlag, ": ",
                                                   no_key ? files.certificate : files.key, " needs ",
                                                   no_key ? kKeyFlag : kCertificateFlag, " as well"));
  }
  TlsTexts texts;
  if (!files.ca.empty()) {
    ZF_ASSIGN_OR_RETURN(texts.ca, ReadPem(kCaFlag, files.ca));
    ZF_RETURN_IF_ERROR(ParseCertificate(kCaFlag, files.ca, texts.ca));
  }
  if (!files.certificate.empty()) {
    ZF_ASSIGN_OR_RETURN(texts.certificate, ReadPem(kCertificateFlag, files.certificate));
    ZF_ASSIGN_OR_RETURN(texts.key, ReadPem(kKeyFlag, files.key));
    ZF_RETURN_IF_ERROR(CheckPair(files, texts));
  }
  return texts;
}

}  // namespace zerofleet::services
