#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tutti/store.h"

namespace tutti::rendezvous {

enum class FileGuard : std::uint8_t {
  user,    ///< the file must be this user's and closed to others, or Error{rendezvous}
  secret,  ///< what is in it is worth nothing without the job's secret: whoever the system lets in may use it
};

/// file_store() with a timeout that also bounds the opening. With `own_folder`, the folder of `path` belongs to this
/// job: it is made, readable by this user only, and the last user removes it too.
std::shared_ptr<Store> open_file_store(const std::string& path, int users, Store::Milliseconds timeout,
                                       bool own_folder = false, FileGuard guard = FileGuard::user);

}  // namespace tutti::rendezvous
