#pragma once

namespace tutti::cli {

/// `tutti plan`: shows, proves and explains plans. argv[0] is the name of the subcommand. Exit code 0, or 1 if a plan
/// is found wrong; throws Error{invalid_argument} for a wrong command line.
int plan_main(int argc, char** argv);

}  // namespace tutti::cli
