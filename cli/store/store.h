#pragma once

namespace tutti::cli {

/// `tutti store`: serves a TCP store, or speaks to one. argv[0] is the name of the subcommand.
/// Returns 0 when all went well, 1 when something failed (with a message), 6 for bad usage.
int store_main(int argc, char** argv);

}  // namespace tutti::cli
