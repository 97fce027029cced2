#pragma once

#include <string>

#include "tutti/error.h"

namespace tutti {

/// Writes the failure to the file TORCHELASTIC_ERROR_FILE, so that torchrun shows it as the cause of a failed rank.
/// Does nothing if the variable is not set, if the error is the caller's own (`invalid_argument`, `unsupported`), or if
/// the file exists: the first error counts. The file appears whole or not at all. A failure to write is ignored, since
/// the error itself reaches the caller. Threading: any.
void write_error_file(const Error& error) noexcept;

/// The content of the file, as torch's elastic agent reads it: {"message": {"message": TEXT, "extraInfo": {"timestamp":
/// "SECONDS", ...}}}. Bytes that are not UTF-8 become U+FFFD, since otherwise the agent would fail.
std::string error_file_text(const Error& error, long long seconds_since_1970);

}  // namespace tutti
