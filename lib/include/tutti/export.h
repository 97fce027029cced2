#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "tutti needs C++20: compile with -std=c++20 or newer"
#endif

/// Marks what a program that links tutti may call; everything else is hidden.
#define TUTTI_API [[gnu::visibility("default")]]
