#pragma once

/// The one place that holds the version; meson.build reads it from here.
#define TUTTI_VERSION "0.2.0"

/// The inline namespace of the C++ interface, which every symbol of it carries: `tutti::v0_2::Communicator`. Programs
/// write `tutti::Communicator`. Until 1.0 each minor version has its own, so that a program that was compiled with the
/// headers of one does not link with the library of another.
#define TUTTI_ABI v0_2
