#pragma once

namespace tutti::cli {

/// `tutti bench`, and the programs all_reduce_perf and so on: argv[0] is "bench" (then the collective is the first
/// word) or the name of such a program (a folder before it and "_mpi" after it are ignored).
int bench_main(int argc, char** argv);

}  // namespace tutti::cli
