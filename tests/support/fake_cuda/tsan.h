#pragma once

// What ThreadSanitizer may see of the fake. Its own bookkeeping, under one mutex, would order everything with
// everything; so that is hidden, and only the edges that CUDA guarantees are told: from enqueueing to running, from a
// point of a stream to those that wait for it. A program without a necessary wait is then reported, whatever the timing
// was.

#ifdef __SANITIZE_THREAD__
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace fake_cuda {

#ifdef __SANITIZE_THREAD__
inline void hide() {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void show() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}
inline void tell_release(void* edge) { __tsan_release(edge); }
inline void tell_acquire(void* edge) { __tsan_acquire(edge); }
#else
inline void hide() {}
inline void show() {}
inline void tell_release(void*) {}
inline void tell_acquire(void*) {}
#endif

/// What this thread does from here on is the fake's bookkeeping.
struct Hidden {
  Hidden() { hide(); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
  ~Hidden() { show(); }
};

/// Within Hidden: what the program, or a device on its behalf, does.
struct Visible {
  Visible() { show(); }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;
  ~Visible() { hide(); }
};

/// A place in the order of events. Both functions are called within Hidden.
class Edge {
 public:
  void release() {
    const Visible visible;
    tell_release(this);
  }
  void acquire() {
    const Visible visible;
    tell_acquire(this);
  }

 private:
  [[maybe_unused]] char place_ = 0;  // only ThreadSanitizer looks at its address
};

}  // namespace fake_cuda
