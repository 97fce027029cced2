#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tutti::cli {

/// "8", "64k", "1.5K", "32M", "1G", also as "64KB" or "64KiB": bytes in binary units. Empty for anything else, and
/// above 64 TiB.
std::optional<std::size_t> parse_bytes(const std::string& text);

}  // namespace tutti::cli
