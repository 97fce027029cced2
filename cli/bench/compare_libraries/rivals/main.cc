// The programs tutti-rival-*: linked once with each backend, so the same code measures all of them.

#include "cli/bench/compare_libraries/rivals/rank.h"

int main(int argc, char** argv) { return tutti::cli::measure::run_rank(argc, argv); }
