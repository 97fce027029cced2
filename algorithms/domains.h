#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::algorithms {

/// Domains as they are written in names of algorithms: by their sizes if they consist of neighbours ("3+1"), else by
/// their ranks ("0.2+1.3", "0-3.8+4-7"). `domains`: see Shape.
std::string domains_text(std::span<const int> domains);
/// The reverse; empty if the text is of another form, or has a rank twice or leaves one out.
std::vector<int> domains_in(std::string_view text);

}  // namespace tutti::algorithms
