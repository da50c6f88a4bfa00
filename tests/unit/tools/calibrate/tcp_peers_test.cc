// Ranks as threads of this process, over the loopback.
#include "tools/calibrate/tcp_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <thread>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/watchdog.h"

namespace stepsim::measure {
namespace {

using testing::HasSubstr;

constexpr double kPatience = 60;  // seconds: a busy machine is no error

// A port that is free now.
int FreePort() {
  const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  EXPECT_EQ(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

LaunchContext Rank(int rank, int ranks) {
  LaunchContext context;
  context.launcher = Launcher::kEnvironment;
  context.rank = rank;
  context.ranks = ranks;
  context.master_address = "127.0.0.1";
  return context;
}

// Runs `body` as each of the ranks; the messages of those that threw.
std::vector<std::string> AsRanks(int ranks, const std::function<void(TcpPeers&)>& body) {
  const int port = FreePort();
  std::vector<std::future<std::string>> results;
  for (int rank = 0; rank < ranks; ++rank) {
    results.push_back(std::async(std::launch::async, [=]() -> std::string {
      try {
        TcpPeers peers(Rank(rank, ranks), port, kPatience);
        body(peers);
      } catch (const MeasureError& error) {
        return error.what();
      }
      return "";
    }));
  }
  std::vector<std::string> messages;
  for (auto& result : results) messages.push_back(result.get());
  return messages;
}

TEST(TcpPeers, AgreeOnTheLargestAndOnRankZerosText) {
  const auto messages = AsRanks(3, [](TcpPeers& peers) {
    EXPECT_EQ(peers.Max(peers.rank() == 1 ? 7.5 : -1), 7.5);
    EXPECT_EQ(peers.FromFirst(peers.rank() == 0 ? "id" : "ignored"), "id");
    EXPECT_EQ(peers.nodes(), 1);
    EXPECT_EQ(peers.Lost(), "");
    peers.Max(0);  // all have looked
  });
  EXPECT_THAT(messages, testing::Each(""));
}

TEST(TcpPeers, ARankThatEndsEndsTheOthersWithItsName) {
  const auto messages = AsRanks(3, [](TcpPeers& peers) {
    if (peers.rank() == 2) return;  // as if it had crashed
    peers.Max(1);
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 2"));
  EXPECT_THAT(messages[0], HasSubstr("has ended"));
  EXPECT_THAT(messages[1], HasSubstr("rank 0"));
}

TEST(TcpPeers, StrangersOnThePortAreIgnored) {
  const int port = FreePort();
  auto zero = std::async(std::launch::async, [port] {
    TcpPeers peers(Rank(0, 2), port, kPatience);
    return peers.Max(1);
  });
  {
    const Socket stranger(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (connect(stranger.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      std::this_thread::yield();  // rank 0 is not listening yet
    }
    const char text[] = "GET / HTTP/1.1\r\n\r\n";
    EXPECT_GT(write(stranger.fd(), text, sizeof text), 0);
  }
  TcpPeers one(Rank(1, 2), port, kPatience);
  EXPECT_EQ(one.Max(2), 2);
  EXPECT_EQ(zero.get(), 2);
}

TEST(TcpPeers, NobodyThere) {
  try {
    TcpPeers peers(Rank(1, 2), FreePort(), 0.2);
    FAIL() << "met somebody";
  } catch (const MeasureError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 cannot reach rank 0 at 127.0.0.1"));
  }
}

TEST(Watchdog, EndsAProcessWhosePeerIsLost) {
  std::promise<std::string> said;
  const Watchdog watchdog([] { return std::string("rank 3 has ended"); }, kPatience,
                          [&](const std::string& text) { said.set_value(text); });
  EXPECT_EQ(said.get_future().get(), "rank 3 has ended");
}

TEST(Watchdog, EndsAProcessThatHangs) {
  std::promise<std::string> said;
  const Watchdog watchdog([] { return std::string(); }, 0.01,
                          [&](const std::string& text) { said.set_value(text); });
  EXPECT_THAT(said.get_future().get(), HasSubstr("--timeout"));
}

}  // namespace
}  // namespace stepsim::measure
