#include "lib/base/job_secret.h"

#include "lib/base/environment.h"
#include "tutti/error.h"

namespace tutti {

Secret job_secret(const std::string& path) {
  if (!path.empty()) return Secret::from_file(path);
  const auto text = variable("TUTTI_SECRET");
  const auto file = variable("TUTTI_SECRET_FILE");
  if (text && file)
    throw Error{ErrorCode::invalid_argument, "TUTTI_SECRET and TUTTI_SECRET_FILE are both set: unset one of them"};
  if (text) return Secret::from_text(*text, "TUTTI_SECRET");
  return file ? Secret::from_file(*file) : Secret{};
}

bool insecure_allowed() {
  const std::string text = variable("TUTTI_INSECURE").value_or("0");
  if (text != "0" && text != "1")
    throw Error{ErrorCode::invalid_argument, "TUTTI_INSECURE=" + text + " is neither 0 nor 1"};
  return text == "1";
}

}  // namespace tutti
