#pragma once

namespace tutti::cli {

/// `tutti simulate ...`: times plans on model networks, up to tens of thousands of ranks. Returns the exit code.
int simulate_main(int argc, char** argv);

}  // namespace tutti::cli
