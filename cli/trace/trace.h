#pragma once

namespace tutti::tools {

/// `tutti trace`.
int trace_main(int argc, char** argv);

}  // namespace tutti::tools
