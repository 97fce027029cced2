// Of no use but to meson.build, in a build with --unity=on.
