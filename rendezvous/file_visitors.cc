#include "rendezvous/file_visitors.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

/// Removes a file whose users have all come, and were killed.
void remove_if_left(const std::string& path) {
  FileLog log{path, FileLog::Missing::refused};  // somebody may just have removed it
  const FileLog::Lock lock{log, FileLog::Lock::Kind::exclusive, std::chrono::steady_clock::now()};
  Visitors visitors;
  for (const Record& record : log.read_new()) visitors.note(record);
  const bool all_ended = std::all_of(visitors.present.begin(), visitors.present.end(),
                                     [](const auto& visitor) { return has_ended(visitor.second); });
  if (visitors.all_came && all_ended) log.remove();
}

}  // namespace

void Visitors::note(const Record& record) {
  if (record.kind == RecordKind::join) {
    present[arrived++] = decode_process(record.value).value_or(Process{});
    ++seated;
    expected = std::atoi(record.key.c_str());
    all_came = all_came || seated >= expected;
  } else if (record.kind == RecordKind::leave) {
    present.erase(std::atoi(record.key.c_str()));
    if (record.value == place_given_back) --seated;
  }
}

void remove_left_folders(const std::string& ours) {
  const std::string names = fmt::format("tutti-{}-", ::geteuid());
  std::error_code failed;
  const auto entries = [&failed](const std::filesystem::path& path) {
    std::vector<std::string> found;
    for (std::filesystem::directory_iterator it{path, failed}, end; !failed && it != end; it.increment(failed))
      found.push_back(it->path().string());
    return found;
  };
  for (const std::string& folder : entries(std::filesystem::path{ours}.parent_path())) {
    struct stat status {};
    if (folder == ours || !std::filesystem::path{folder}.filename().string().starts_with(names) ||
        ::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid())
      continue;
    for (const std::string& file : entries(folder)) {
      try {
        remove_if_left(file);
      } catch (const Error&) {
        // Somebody uses it, or it is no file of ours.
      }
    }
    ::rmdir(folder.c_str());  // unless something is left in it
  }
}

}  // namespace tutti::rendezvous
