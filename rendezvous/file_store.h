#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tutti/store.h"

namespace tutti::rendezvous {

enum class FileGuard : std::uint8_t {
  user,    ///< the file must be this user's and closed to others, or Error{rendezvous}
  secret,  ///< its contents are useless without the job's secret, so the system's access rights suffice
};

/// file_store() whose timeout also bounds the opening. With `own_folder`, the folder of `path` belongs to this job: it
/// is created with access for this user only, and the last user also removes it.
std::shared_ptr<Store> open_file_store(const std::string& path, int users, Store::Milliseconds timeout,
                                       bool own_folder = false, FileGuard guard = FileGuard::user);

}  // namespace tutti::rendezvous
