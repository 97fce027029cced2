// The one place where fmt is compiled; all other files see its declarations only.

#include <fmt/format-inl.h>

namespace fmt::detail {

// Definitions that fmt's headers, or code that they instantiate, expect to be compiled elsewhere.
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace fmt::detail
