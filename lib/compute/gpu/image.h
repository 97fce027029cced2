#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tutti::compute::gpu {

/// The kernels as a fatbin: machine code for several architectures, and PTX for later ones, which the driver compiles.
/// tools/gpu_image.py writes this with nvcc when tutti is built. Empty if there was no nvcc.
std::span<const std::byte> image();
/// One sentence that says why there is no image, with the remedy; empty if there is one.
std::string_view why_no_image();

}  // namespace tutti::compute::gpu
