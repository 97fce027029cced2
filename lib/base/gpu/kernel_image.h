#pragma once

#include "lib/base/gpu/driver.h"

namespace tutti::cuda {

/// Compiled kernels, loaded into the driver. One image serves all devices and contexts.
class KernelImage {
 public:
  /// `image` is a fatbin, which stays where it is as long as this object lives. Throws Error{unsupported} with the
  /// remedy if the driver cannot run it on this machine's GPUs.
  explicit KernelImage(const void* image);
  KernelImage(const KernelImage&) = delete;
  KernelImage& operator=(const KernelImage&) = delete;
  ~KernelImage();

  /// Usable in all contexts. Throws if the image has none of that name.
  Kernel kernel(const char* name) const;
  /// Loads the kernel for the current context, which waits for all that its device does: at set-up, never while
  /// a stream waits for a word.
  static void load(Kernel kernel);

 private:
  LibraryHandle library_ = nullptr;
};

}  // namespace tutti::cuda
