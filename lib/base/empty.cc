// meson.build adds this file to libraries in a build with --unity=on.
