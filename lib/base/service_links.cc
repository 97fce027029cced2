#include "lib/base/service_links.h"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

constexpr std::array<std::string_view, 3> protocols{"TCP", "UDP", "SCTP"};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

/// <SERVICE>_PORT_29500_TCP, and the same with _PROTO, _PORT or _ADDR behind it.
bool names_one_port(std::string_view name) {
  for (const std::string_view detail : {"_PROTO", "_PORT", "_ADDR"})
    if (take_suffix(name, detail)) break;
  for (const std::string_view protocol : protocols) {
    std::string_view rest = name;
    if (!take_suffix(rest, protocol) || !take_suffix(rest, "_")) continue;
    const std::size_t number = rest.rfind('_') + 1;  // 0 if there is none
    return is_number(rest.substr(number)) && rest.substr(0, number).ends_with("_PORT_");
  }
  return false;
}

}  // namespace

bool is_service_link(std::string_view name, std::string_view value) {
  if (name.ends_with("_SERVICE_HOST") || names_one_port(name)) return true;
  if (name.ends_with("_PORT") && is_service_address(value)) return true;
  // Named ports follow: <SERVICE>_SERVICE_PORT_HTTP.
  return (name.ends_with("_SERVICE_PORT") || name.find("_SERVICE_PORT_") != std::string_view::npos) && is_number(value);
}

bool is_service_address(std::string_view value) {
  return std::ranges::any_of(std::array{"tcp://", "udp://", "sctp://"},
                             [value](std::string_view scheme) { return value.starts_with(scheme); });
}

}  // namespace tutti
