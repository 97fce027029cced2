#pragma once

#include <doctest/doctest.h>

#include <string>

#include "cli/simulate/network.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {

/// What is wrong with the text of a network file, or "none".
inline std::string network_problem(const std::string& text) {
  try {
    NetworkFile::parse(text, "a.net");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "none";
}

}  // namespace tutti::cli::simulate
