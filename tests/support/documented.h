#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::testing {

/// docs/wire.md, relative to this header or to the test program (a build folder inside the repository).
inline std::filesystem::path specification() {
  for (std::filesystem::path start :
       {std::filesystem::absolute(__FILE__), std::filesystem::canonical("/proc/self/exe")})
    for (auto folder = start.parent_path(); folder != folder.root_path(); folder = folder.parent_path())
      if (std::filesystem::exists(folder / "docs" / "wire.md")) return folder / "docs" / "wire.md";
  return {};
}

/// The bytes in the document's block that begins with "```hex <name>"; text after '#' is comment.
inline std::vector<std::byte> documented_bytes(const std::string& name) {
  std::ifstream file(specification());
  std::string line;
  while (std::getline(file, line) && line != "```hex " + name) continue;
  std::vector<std::byte> bytes;
  while (std::getline(file, line) && line != "```") {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
  }
  return bytes;
}

}  // namespace tutti::testing
