#pragma once

namespace tutti::cli {

/// The page without its data, UTF-8: cli/plan/page/web/, put together by the build. @DATA@ stands once for a JSON text.
extern const char* const page_template;

}  // namespace tutti::cli
