#include "tools/calibrate/tcp_peers.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "tools/calibrate/backend.h"

namespace stepsim::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMostBytes = 1 << 20;  // of a text
constexpr std::string_view kMagic = "stepsim1";
constexpr double kGreetingPatience = 5;  // seconds for a stranger to say who it is

Clock::time_point In(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Waits until something can be read or written; false when the time is up.
bool WaitFor(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{fd, events, 0};
    constexpr std::int64_t kLongest = 1000;
    const int ready = poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, kLongest)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

enum class Transfer { kDone, kClosed, kLate };

Transfer ReadAll(int fd, char* to, std::size_t bytes, Clock::time_point deadline) {
  while (bytes > 0) {
    if (!WaitFor(fd, POLLIN, deadline)) return Transfer::kLate;
    const ssize_t got = recv(fd, to, bytes, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return Transfer::kClosed;
    if (got < 0) continue;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return Transfer::kDone;
}

Transfer WriteAll(int fd, const char* from, std::size_t bytes, Clock::time_point deadline) {
  while (bytes > 0) {
    if (!WaitFor(fd, POLLOUT, deadline)) return Transfer::kLate;
    const ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return Transfer::kClosed;
    if (sent < 0) continue;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return Transfer::kDone;
}

Transfer SendText(int fd, const std::string& text, Clock::time_point deadline) {
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(text.size()));
  std::string frame(sizeof length, '\0');
  std::memcpy(frame.data(), &length, sizeof length);
  frame += text;
  return WriteAll(fd, frame.data(), frame.size(), deadline);
}

Transfer ReceiveText(int fd, std::string* text, Clock::time_point deadline) {
  std::uint32_t length = 0;
  char head[sizeof length];
  if (const Transfer done = ReadAll(fd, head, sizeof head, deadline); done != Transfer::kDone) {
    return done;
  }
  std::memcpy(&length, head, sizeof length);
  length = ntohl(length);
  if (length > kMostBytes) return Transfer::kClosed;
  text->resize(length);
  return ReadAll(fd, text->data(), length, deadline);
}

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

// "stepsim1 3 8 node17"
std::string Greeting(int rank, int ranks) {
  return fmt::format("{} {} {} {}", kMagic, rank, ranks, HostName());
}

Socket Listen(int port) {
  Socket listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  four.sin_port = six.sin6_port;
  const bool is_six = listener.fd() >= 0;
  if (!is_six) listener = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (is_six) setsockopt(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto* address =
      is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  const socklen_t size = is_six ? sizeof six : sizeof four;
  constexpr int kQueue = 1024;
  if (bind(listener.fd(), address, size) != 0 || listen(listener.fd(), kQueue) != 0) {
    throw MeasureError(
        fmt::format("rank 0 cannot listen on port {}: {}; --port takes another one, "
                    "the same on all ranks",
                    port, std::strerror(errno)));
  }
  return listener;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

TcpPeers::TcpPeers(const LaunchContext& context, int port, double patience_s)
    : patience_s_(patience_s) {
  rank_ = context.rank;
  ranks_ = context.ranks;
  local_rank_ = context.local_rank;
  if (rank_ == 0) {
    AcceptAll(port);
  } else {
    Connect(context.master_address, port);
  }
  std::set<std::string> hosts = {HostName()};
  for (const Peer& peer : peers_) hosts.insert(peer.host);
  nodes_ = static_cast<int>(std::stol(FromFirst(std::to_string(hosts.size()))));
}

void TcpPeers::AcceptAll(int port) {
  const Socket listener = Listen(port);
  const auto deadline = In(patience_s_);
  while (static_cast<int>(peers_.size()) < ranks_ - 1) {
    if (!WaitFor(listener.fd(), POLLIN, deadline)) {
      throw MeasureError(fmt::format("{} of {} ranks have come to port {} within {:.0f} s",
                                     peers_.size() + 1, ranks_, port, patience_s_));
    }
    Greet(Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  std::sort(peers_.begin(), peers_.end(),
            [](const Peer& a, const Peer& b) { return a.rank < b.rank; });
}

bool TcpPeers::Greet(Socket socket) {
  if (socket.fd() < 0) return false;
  std::string text;
  if (ReceiveText(socket.fd(), &text, In(kGreetingPatience)) != Transfer::kDone) return false;
  int rank = 0, ranks = 0, end = 0;
  if (text.compare(0, kMagic.size(), kMagic) != 0 ||
      std::sscanf(text.c_str() + kMagic.size(), " %d %d %n", &rank, &ranks, &end) != 2) {
    return false;
  }
  const bool is_known = std::any_of(peers_.begin(), peers_.end(),
                                    [&](const Peer& peer) { return peer.rank == rank; });
  if (ranks != ranks_ || rank < 1 || rank >= ranks_ || is_known) {
    throw MeasureError(
        fmt::format("a process says that it is rank {} of {}, but this is rank 0 of "
                    "{}{}: are two measurements running on one port (--port)?",
                    rank, ranks, ranks_, is_known ? ", and that rank is here" : ""));
  }
  SendAtOnce(socket.fd());
  peers_.push_back({std::move(socket), rank, text.substr(kMagic.size() + std::size_t(end))});
  return true;
}

void TcpPeers::Connect(const std::string& address, int port) {
  const auto deadline = In(patience_s_);
  std::string problem = "no answer";
  while (Clock::now() < deadline) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (code != 0) problem = gai_strerror(code);
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
      if (socket.fd() < 0 || connect(socket.fd(), at->ai_addr, at->ai_addrlen) != 0) {
        problem = std::strerror(errno);
        continue;
      }
      freeaddrinfo(found);
      SendAtOnce(socket.fd());
      peers_.push_back({std::move(socket), 0, address});
      Send(peers_.front(), Greeting(rank_, ranks_));
      return;
    }
    if (found != nullptr) freeaddrinfo(found);
    constexpr std::chrono::milliseconds kBetweenTries(100);  // rank 0 may start later
    std::this_thread::sleep_for(kBetweenTries);
  }
  throw MeasureError(fmt::format("rank {} cannot reach rank 0 at {} port {} within {:.0f} s: {}",
                                 rank_, address, port, patience_s_, problem));
}

void TcpPeers::Fail(const Peer& peer, const std::string& what) const {
  throw MeasureError(fmt::format("rank {}: rank {} ({}) {}", rank_, peer.rank, peer.host, what));
}

void TcpPeers::Send(const Peer& peer, const std::string& text) const {
  const Transfer done = SendText(peer.socket.fd(), text, In(patience_s_));
  if (done == Transfer::kClosed) Fail(peer, "has ended; its own message says why");
  if (done == Transfer::kLate) Fail(peer, fmt::format("takes nothing for {:.0f} s", patience_s_));
}

std::string TcpPeers::Receive(const Peer& peer) const {
  std::string text;
  const Transfer done = ReceiveText(peer.socket.fd(), &text, In(patience_s_));
  if (done == Transfer::kClosed) Fail(peer, "has ended; its own message says why");
  if (done == Transfer::kLate) Fail(peer, fmt::format("is silent for {:.0f} s", patience_s_));
  return text;
}

double TcpPeers::Max(double value) {
  const auto number = [&](const Peer& peer) {
    const std::string text = Receive(peer);
    double received = 0;
    if (text.size() != sizeof received) Fail(peer, "is out of step: is it another program?");
    std::memcpy(&received, text.data(), sizeof received);
    return received;
  };
  const auto bytes = [](double from) {
    std::string text(sizeof from, '\0');
    std::memcpy(text.data(), &from, sizeof from);
    return text;
  };
  if (rank_ == 0) {
    for (const Peer& peer : peers_) value = std::max(value, number(peer));
    for (const Peer& peer : peers_) Send(peer, bytes(value));
    return value;
  }
  Send(peers_.front(), bytes(value));
  return number(peers_.front());
}

std::string TcpPeers::FromFirst(const std::string& text) {
  if (rank_ != 0) return Receive(peers_.front());
  for (const Peer& peer : peers_) Send(peer, text);
  return text;
}

std::string TcpPeers::Lost() {
  for (const Peer& peer : peers_) {
    pollfd entry{peer.socket.fd(), POLLRDHUP, 0};
    if (poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      return fmt::format("rank {}: rank {} ({}) has ended; its own message says why", rank_,
                         peer.rank, peer.host);
    }
  }
  return "";
}

}  // namespace stepsim::measure
