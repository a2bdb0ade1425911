// One HTTP request over a plain socket; see scrape.h.
#include "cli/launcher/scrape.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace zerofleet::cli {
namespace {

constexpr int kTimeoutSeconds = 5;
constexpr size_t kLargestPage = 4 << 20;
constexpr int kFirstPort = 20000, kLastPort = 30000;  // below the ports that the kernel assigns by itself

class Socket {
 public:
  Socket() : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

sockaddr_in LocalAddress(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool IsFree(int port) {
  const Socket socket;
  const sockaddr_in address = LocalAddress(port);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

absl::StatusOr<std::string> Get(int port, const std::string& path) {
  const auto failure = [&](const char* what) {
    return absl::UnavailableError(absl::StrCat("port ", port, ": ", what, ": ", std::strerror(errno)));
  };
  const Socket socket;
  const timeval timeout = {.tv_sec = kTimeoutSeconds, .tv_usec = 0};
  for (const int way : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(socket.get(), SOL_SOCKET, way, &timeout, sizeof(timeout));
  const sockaddr_in address = LocalAddress(port);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return failure("connect");
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return failure("send");
  }
  std::string answer;
  std::vector<char> chunk(1 << 16);
  while (answer.size() < kLargestPage) {
    const ssize_t count = recv(socket.get(), chunk.data(), chunk.size(), 0);
    if (count < 0) return failure("receive");
    if (count == 0) break;
    answer.append(chunk.data(), static_cast<size_t>(count));
  }
  const size_t body = answer.find("\r\n\r\n");
  if (!absl::StartsWith(answer, "HTTP/1.") || answer.find(" 200 ") > answer.find('\n') || body == std::string::npos) {
    return absl::UnavailableError(absl::StrCat("port ", port, path, " does not answer with a page"));
  }
  return answer.substr(body + 4);
}

}  // namespace

std::map<std::string, double> ParseMetrics(absl::string_view page) {
  std::map<std::string, double> metrics;
  for (const absl::string_view line : absl::StrSplit(page, '\n', absl::SkipWhitespace())) {
    const size_t space = line.rfind(' ');
    double value = 0;
    if (line[0] == '#' || space == absl::string_view::npos || !absl::SimpleAtod(line.substr(space + 1), &value))
      continue;
    metrics[std::string(line.substr(0, space))] = value;
  }
  return metrics;
}

absl::StatusOr<std::map<std::string, double>> ScrapeMetrics(int port) {
  ZF_ASSIGN_OR_RETURN(const std::string page, Get(port, "/metrics"));
  return ParseMetrics(page);
}

absl::StatusOr<int> FreePorts(int count) {
  int free = 0;
  for (int port = kFirstPort + getpid() % 5000; port < kLastPort; ++port) {
    free = IsFree(port) ? free + 1 : 0;
    if (free == count) return port - count + 1;
  }
  return absl::UnavailableError(absl::StrCat("no ", count, " free ports in a row below ", kLastPort));
}

}  // namespace zerofleet::cli
