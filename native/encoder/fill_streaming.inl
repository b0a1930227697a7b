// fill_zero() with stores that go around the cache. Included as kernels_body.inl is and before it,
// after these are defined:
//   Vector
//   void stream_zero(std::byte* destination)   a Vector of zeros, to an address aligned for it

void fill_zero(std::byte* destination, std::size_t size) {
  // Below this, the lines are likely to be wanted in the cache and a fence would cost more.
  constexpr std::size_t kStreamFrom = 4096;
  constexpr std::size_t kVector = sizeof(Vector);
  if (size < kStreamFrom) {
    std::memset(destination, 0, size);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(destination);
  const std::size_t head = (kVector - address % kVector) % kVector;
  std::memset(destination, 0, head);
  std::byte* const aligned = destination + head;
  const std::size_t body = (size - head) / kVector * kVector;
  for (std::size_t offset = 0; offset < body; offset += kVector) stream_zero(aligned + offset);
  std::memset(aligned + body, 0, size - head - body);
  _mm_sfence();  // streamed stores must be visible before whatever tells another thread
}
