#pragma once

namespace tutti::cli {

/// `tutti learn`: lists the lessons, prints one, or makes pages of them. argv[0] is the name of the subcommand. Throws
/// Error{invalid_argument} for a wrong command line, Error{system} if a page cannot be written.
int learn_main(int argc, char** argv);

}  // namespace tutti::cli
