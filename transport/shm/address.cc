// "shm1:RANK:SOCKET:BOOT:NETWORK:USER", the socket's name in hexadecimal.

#include "transport/shm/address.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr std::string_view prefix = "shm1";
constexpr const char* boot_file = "/proc/sys/kernel/random/boot_id";
constexpr const char* network_file = "/proc/self/ns/net";

std::string to_hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

template <class Integer>
bool read(std::string_view text, Integer& value, int base = 10) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return failure == std::errc{} && end == text.data() + text.size();
}

bool from_hexadecimal(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned char byte = 0;
    if (!read(text.substr(i, 2), byte, 16)) return false;
    bytes += static_cast<char>(byte);
  }
  return true;
}

}  // namespace

std::string ShmAddress::encode() const {
  return fmt::format("{}:{}:{}:{}:{}:{}", prefix, rank, to_hexadecimal(socket), boot, network, user);
}

std::optional<ShmAddress> ShmAddress::parse(std::string_view text) {
  std::array<std::string_view, 6> fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t end = text.find(':');
    if ((end == text.npos) != (i + 1 == fields.size())) return std::nullopt;
    fields[i] = text.substr(0, end);
    if (end != text.npos) text.remove_prefix(end + 1);
  }
  ShmAddress address;
  address.boot = fields[3];
  if (fields[0] != prefix || !read(fields[1], address.rank) || !from_hexadecimal(fields[2], address.socket) ||
      address.boot.empty() || !read(fields[4], address.network) || !read(fields[5], address.user))
    return std::nullopt;
  return address;
}

ShmAddress ShmAddress::here() {
  ShmAddress address;
  std::ifstream boot(boot_file);
  if (!(boot >> address.boot))
    throw Error(ErrorCode::system, fmt::format("cannot tell which host this is: {} is not readable", boot_file));
  struct ::stat status {};
  if (::stat(network_file, &status) != 0)
    throw Error(ErrorCode::system,
                fmt::format("cannot tell which host this is: {}: {}", network_file, std::strerror(errno)));
  address.network = status.st_ino;
  address.user = static_cast<long>(::geteuid());
  return address;
}

std::string host_identity() try { return ShmAddress::here().encode(); } catch (const Error&) {
  return "";
}

bool offers_shm(std::string_view address) {
  const auto parsed = ShmAddress::parse(address);
  return parsed && !parsed->socket.empty();
}

std::string kernel_of(std::string_view address) {
  const auto parsed = ShmAddress::parse(address);
  return parsed ? parsed->boot : "";
}

bool same_kernel(std::string_view one, std::string_view other) {
  const auto a = ShmAddress::parse(one);
  const auto b = ShmAddress::parse(other);
  return a && b && a->boot == b->boot;
}

bool same_host(std::string_view one, std::string_view other) {
  const auto a = ShmAddress::parse(one);
  const auto b = ShmAddress::parse(other);
  return a && b && a->boot == b->boot && a->network == b->network;
}

}  // namespace tutti::transport
