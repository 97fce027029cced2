#pragma once

namespace tutti::cli {

/// `tutti trace`.
int trace_main(int argc, char** argv);

}  // namespace tutti::cli
