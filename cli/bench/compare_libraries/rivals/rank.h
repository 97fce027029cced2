#pragma once

namespace tutti::cli::measure {

/// One rank of the library whose join() is linked: measures one call over the sizes of the command line. With
/// --version it prints the library's instead. Returns the exit code.
int run_rank(int argc, char** argv);

}  // namespace tutti::cli::measure
