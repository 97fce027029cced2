#pragma once

#include <string_view>

namespace tutti::cli::bench {

/// "startup", "waiting" and "memory" measure costs of ranks besides their collectives.
bool is_footprint(std::string_view word);

/// `tutti bench startup` and so on: starts ranks of this program, or runs as one of them. argv[0] is the word.
int footprint_main(int argc, char** argv);

}  // namespace tutti::cli::bench
