#pragma once

/// The one place that holds the version; meson.build reads it from here.
#define TUTTI_VERSION "0.2.0"
