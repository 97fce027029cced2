#pragma once

namespace tutti::cli {

/// `tutti store`: serves a TCP store, or is a client of one. argv[0] is the name of the subcommand. Returns 0 on
/// success, 1 after a failure (with a message), 6 for a wrong command line.
int store_main(int argc, char** argv);

}  // namespace tutti::cli
