#pragma once

#include <string>

#include "tutti/error.h"

namespace tutti {

/// Leaves the failure where TORCHELASTIC_ERROR_FILE says, so that torchrun shows it as the cause of a failed rank; does
/// nothing where that is not set, for errors that are the caller's own (`invalid_argument`, `unsupported`), or where
/// the file exists: the first error wins. The file appears whole or not at all. A failure to write is ignored: the
/// error itself reaches the caller in any case.
/// Threading: any.
void write_error_file(const Error& error) noexcept;

/// What is in the file, as torch's elastic agent reads it: {"message": {"message": TEXT, "extraInfo": {"timestamp":
/// "SECONDS", ...}}}. Bytes that are not UTF-8 become U+FFFD, or its reader would fail instead of us.
std::string error_file_text(const Error& error, long long seconds_since_1970);

}  // namespace tutti
