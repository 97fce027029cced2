// What most files include, compiled once per program or library (Meson's cpp_pch): a third of the time of a build. Files
// include what they use as if this were not here: -Db_pch=false builds, and clang-tidy reads them without it. No file
// includes this one.

#if __has_include(<fmt/core.h>)  // not in algorithms/, where it may not be to be found
#include <fmt/core.h>
#include <fmt/format.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>
