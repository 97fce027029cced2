#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::detail {

/// A queue that keeps its memory. Once warm it allocates nothing, unlike std::deque.
template <class T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return ring_[head_]; }
  const T& operator[](std::size_t i) const { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  T& operator[](std::size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }

  void push(T value) {
    if (size_ == ring_.size()) grow();
    ring_[(head_ + size_) & (ring_.size() - 1)] = std::move(value);
    ++size_;
  }
  T pop() {
    T value = std::move(ring_[head_]);
    head_ = (head_ + 1) & (ring_.size() - 1);
    --size_;
    return value;
  }
  void clear() { head_ = size_ = 0; }

 private:
  void grow() {
    std::vector<T> larger(ring_.empty() ? 8 : ring_.size() * 2);  // a power of two: indices are masked
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    ring_ = std::move(larger);
    head_ = 0;
  }

  std::vector<T> ring_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tutti::detail
