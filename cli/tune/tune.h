#pragma once

namespace tutti::cli {

/// `tutti tune`: measures and writes a tuning table, or judges one. Returns an exit code; throws Error.
int tune_main(int argc, char** argv);

}  // namespace tutti::cli
