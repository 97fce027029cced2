#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "tutti needs C++20: compile with -std=c++20 or newer"
#endif

#include <version>  // where the standard library says how it is configured

#include "tutti/abi.h"
#include "tutti/version.h"

// A program whose std::string or std::vector differs in layout from the library's would link, and then corrupt memory.
#ifdef _GLIBCXX_USE_CXX11_ABI
#define TUTTI_PROGRAM_CXX11_ABI _GLIBCXX_USE_CXX11_ABI
#else
#define TUTTI_PROGRAM_CXX11_ABI -1
#endif
#if TUTTI_PROGRAM_CXX11_ABI != TUTTI_LIBRARY_CXX11_ABI
#if TUTTI_PROGRAM_CXX11_ABI == 0
#error \
    "_GLIBCXX_USE_CXX11_ABI=0: this std::string is not that of libtutti.a. Compile without it, or build tutti with it: meson setup -Dcpp_args=-D_GLIBCXX_USE_CXX11_ABI=0"
#elif TUTTI_LIBRARY_CXX11_ABI == 0
#error \
    "libtutti.a was built with _GLIBCXX_USE_CXX11_ABI=0, and its std::string is not this one. Compile with it, too, or build tutti without it"
#else
#error \
    "libtutti.a was built with another C++ standard library. Compile with the same one (clang: -stdlib=libstdc++ or libc++), or build tutti with this one"
#endif
#endif
#undef TUTTI_PROGRAM_CXX11_ABI

#ifdef _GLIBCXX_DEBUG
#define TUTTI_PROGRAM_DEBUG_MODE 1
#else
#define TUTTI_PROGRAM_DEBUG_MODE 0
#endif
#if TUTTI_PROGRAM_DEBUG_MODE > TUTTI_LIBRARY_DEBUG_MODE
#error \
    "_GLIBCXX_DEBUG: this std::vector is not that of libtutti.a. Compile with _GLIBCXX_ASSERTIONS instead, or build tutti with it: meson setup -Dcpp_args=-D_GLIBCXX_DEBUG"
#elif TUTTI_PROGRAM_DEBUG_MODE < TUTTI_LIBRARY_DEBUG_MODE
#error \
    "libtutti.a was built with _GLIBCXX_DEBUG, and its std::vector is not this one. Compile with it, too, or build tutti without it"
#endif
#undef TUTTI_PROGRAM_DEBUG_MODE

/// Marks what a program that links tutti may call; everything else is hidden.
#define TUTTI_API [[gnu::visibility("default")]]
