// A long fat pipe between two network namespaces: a device in each, and what one sends comes out of the other after a
// delay, at a rate. tc's netem would do the same, but many kernels are built without it.
//
//   long_pipe SPACE SPACE DELAY_MS RATE_MBIT     opens a device called "pipe" in each, says "ready", and ends with
//   stdin

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// A router's memory. A sender that fills it loses packets.
constexpr std::size_t most_waiting = std::size_t{16} << 20;
constexpr std::size_t longest_packet = 65536;
constexpr int packets_per_turn = 64;

[[noreturn]] void fail(const std::string& what) {
  std::perror(("long_pipe: " + what).c_str());
  std::exit(1);
}

int open_device(const std::string& space) {
  const int there = ::open(("/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC);
  if (there < 0 || ::setns(there, CLONE_NEWNET) != 0) fail("network namespace " + space);
  ::close(there);
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  std::strcpy(request.ifr_name, "pipe");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (device < 0 || ::ioctl(device, TUNSETIFF, &request) != 0) fail("device of " + space);
  return device;
}

/// One direction.
class Way {
 public:
  Way(int from, int to, Clock::duration delay, double bytes_per_second)
      : from_(from), to_(to), delay_(delay), bytes_per_second_(bytes_per_second) {}

  void take_in(Clock::time_point now) {
    for (int i = 0; i < packets_per_turn; ++i) {
      const ssize_t size = ::read(from_, room_.data(), room_.size());
      if (size <= 0) return;
      if (waiting_ + static_cast<std::size_t>(size) > most_waiting) continue;
      waiting_ += static_cast<std::size_t>(size);
      free_at_ = std::max(free_at_, now) + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                               static_cast<double>(size) / bytes_per_second_));
      packets_.push_back({free_at_ + delay_, {room_.begin(), room_.begin() + size}});
    }
  }
  void let_out(Clock::time_point now) {
    for (; !packets_.empty() && packets_.front().due <= now; packets_.pop_front()) {
      const std::vector<char>& bytes = packets_.front().bytes;
      if (::write(to_, bytes.data(), bytes.size()) < 0 && errno == EAGAIN) return;
      waiting_ -= bytes.size();
    }
  }
  Clock::time_point next() const { return packets_.empty() ? Clock::time_point::max() : packets_.front().due; }

 private:
  struct Packet {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  int from_, to_;
  Clock::duration delay_;
  double bytes_per_second_;
  Clock::time_point free_at_{};
  std::size_t waiting_ = 0;
  std::deque<Packet> packets_;
  std::array<char, longest_packet> room_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fputs("long_pipe SPACE SPACE DELAY_MS RATE_MBIT\n", stderr), 2;
  const int one = open_device(argv[1]), other = open_device(argv[2]);
  const auto delay = std::chrono::milliseconds{std::atoi(argv[3])};
  const double rate = std::atof(argv[4]) * 1e6 / 8;
  Way there{one, other, delay, rate}, back{other, one, delay, rate};
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    const auto wait = std::min(there.next(), back.next()) - Clock::now();
    std::array<pollfd, 3> queries{pollfd{one, POLLIN, 0}, pollfd{other, POLLIN, 0}, pollfd{0, POLLIN, 0}};
    const auto bounded = std::clamp<Clock::duration>(wait, Clock::duration{0}, std::chrono::seconds{1});
    const timespec pause{bounded.count() / 1'000'000'000, bounded.count() % 1'000'000'000};
    ::ppoll(queries.data(), queries.size(), &pause, nullptr);
    if (queries[2].revents != 0) return 0;
    const auto now = Clock::now();
    if (queries[0].revents != 0) there.take_in(now);
    if (queries[1].revents != 0) back.take_in(now);
    there.let_out(now);
    back.let_out(now);
  }
}
