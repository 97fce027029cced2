#pragma once

namespace tutti::cli {

/// The page without its data, UTF-8, assembled from cli/plan/page/web/ by the build. @DATA@ stands once for a JSON
/// text.
extern const char* const page_template;

}  // namespace tutti::cli
