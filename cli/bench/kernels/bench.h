#pragma once

namespace tutti::cli {

/// `tutti bench kernels`: argv[0] is "kernels". Returns the exit code; throws Error.
int kernel_bench_main(int argc, char** argv);

}  // namespace tutti::cli
