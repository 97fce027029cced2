#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/c.h"
#include "tutti/error.h"
#include "tutti/types.h"

/// What C passes, checked: see guarded.h for what the throwing ones throw.
namespace tutti::c_api {

/// 0 is success there, and a kind of failure here.
constexpr tutti_result result_of(ErrorCode code) { return static_cast<tutti_result>(code) + 1; }

[[noreturn]] void refuse_null(const char* name);

template <class T>
T& given(T* pointer, const char* name) {
  if (!pointer) refuse_null(name);
  return *pointer;
}

/// Sets what the program points to. Looks at the pointer first: a call that is refused must have done nothing.
template <class T, class Make>
void give(T* to, const char* name, const Make& make) {
  T& place = given(to, name);
  place = make();
}

inline std::string text_of(const char* text) { return text ? text : ""; }
inline std::chrono::milliseconds milliseconds_of(std::int64_t number) { return std::chrono::milliseconds{number}; }

DataType type_of(tutti_type type);
Collective collective_of(tutti_collective collective);

/// `size`, as the program has set it in a struct of the name, if that can be: `first` is that of the first version.
std::size_t required_size(std::size_t size, const char* name, std::size_t first);
/// Copies the program's struct of `size` bytes over a zeroed one of ours. A newer program may know more members, which
/// must be zero.
void copy_struct(void* ours, std::size_t ours_size, const void* theirs, std::size_t size, const char* name,
                 std::size_t first);

/// The program's options, or the defaults.
template <class Options>
Options options_of(const Options* theirs, const char* name, std::size_t first) {
  Options ours{};
  if (theirs) copy_struct(&ours, sizeof ours, theirs, theirs->size, name, first);
  return ours;
}

/// The same for those of a call, with a stream for memory of a device only. Sets the handles that they ask for to NULL,
/// also if they are wrong otherwise.
tutti_call_options call_options_of(const tutti_call_options* theirs);

/// Writes `from` and a final 0.
void write_text(const std::string& from, char* text, std::size_t size);

}  // namespace tutti::c_api
