// The generic body of the kernels. Included once per instruction set, inside an anonymous namespace
// (and, for all but scalar, a target region), after these functions are defined there:
//   bool is_zero(const std::byte* data, std::size_t size)
//   void load_half(float* out, const std::byte* in, std::size_t count)
//   void store_half(std::byte* out, const float* in, std::size_t count)
//   void fill_zero(std::byte* destination, std::size_t size)
// The compiler vectorises the loops over a tile of constant length; no flag that changes
// floating-point results is allowed (no -ffast-math, no contraction).

constexpr std::size_t kTile = 64;  // elements; a tile of accumulators stays in registers and L1

template <typename T>
struct Arithmetic {
  using Accumulator = T;
  using Factor = T;
};
template <>
struct Arithmetic<Float16> {
  using Accumulator = float;
  using Factor = float;
};
// Horovod scales integers by a double factor and truncates.
template <>
struct Arithmetic<std::int32_t> {
  using Accumulator = std::uint32_t;  // wraps around without undefined behaviour
  using Factor = double;
};
template <>
struct Arithmetic<std::int64_t> {
  using Accumulator = std::uint64_t;
  using Factor = double;
};

template <typename T>
inline void load_tile(typename Arithmetic<T>::Accumulator* tile, const std::byte* source,
                      std::size_t count) {
  if constexpr (std::is_same_v<T, Float16>) {
    load_half(tile, source, count);
  } else {
    std::memcpy(tile, source, count * sizeof(T));
  }
}

template <typename T>
inline void store_tile(std::byte* destination, const typename Arithmetic<T>::Accumulator* tile,
                       std::size_t count) {
  if constexpr (std::is_same_v<T, Float16>) {
    store_half(destination, tile, count);
  } else {
    std::memcpy(destination, tile, count * sizeof(T));
  }
}

// Rounds the accumulators to T, as storing and loading them would.
template <typename T>
inline void round_tile(typename Arithmetic<T>::Accumulator* tile, std::size_t count) {
  if constexpr (std::is_same_v<T, Float16>) {
    std::array<std::byte, kTile * sizeof(Float16)> stored;
    store_half(stored.data(), tile, count);
    load_half(tile, stored.data(), count);
  }
}

// `value` truncated to T; what does not fit becomes the lowest value, on every processor.
template <typename T>
inline T truncate(double value) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  const bool fits = value >= kLow && value < -kLow;
  return fits ? static_cast<T>(fits ? value : 0.0) : std::numeric_limits<T>::min();
}

template <typename T>
inline void scale_tile(typename Arithmetic<T>::Accumulator* tile, std::size_t count,
                       typename Arithmetic<T>::Factor factor) {
  using Accumulator = typename Arithmetic<T>::Accumulator;
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      const auto value = static_cast<double>(static_cast<T>(tile[i]));
      tile[i] = static_cast<Accumulator>(truncate<T>(factor * value));
    } else {
      tile[i] = factor * tile[i];
    }
  }
  round_tile<T>(tile, count);
}

template <typename Accumulator>
inline void add_tile(Accumulator* tile, const Accumulator* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) tile[i] += other[i];
}

template <typename T>
inline void canonicalize_tile(typename Arithmetic<T>::Accumulator* tile, std::size_t count) {
  using Accumulator = typename Arithmetic<T>::Accumulator;
  if constexpr (std::is_floating_point_v<Accumulator>) {
    for (std::size_t i = 0; i < count; ++i) {
      tile[i] = tile[i] != tile[i] ? std::numeric_limits<Accumulator>::quiet_NaN() : tile[i];
    }
  }
}

template <typename T>
inline void reduce_tile(std::byte* destination, const std::byte* const* sources,
                        std::size_t source_count, std::size_t offset, std::size_t count,
                        const Scaling& scaling) {
  using Accumulator = typename Arithmetic<T>::Accumulator;
  using Factor = typename Arithmetic<T>::Factor;
  Accumulator sum[kTile];
  Accumulator next[kTile];
  const auto prescale = static_cast<Factor>(scaling.prescale);
  const auto postscale = static_cast<Factor>(scaling.postscale);
  load_tile<T>(sum, sources[0] + offset, count);
  if (scaling.prescale != 1.0) scale_tile<T>(sum, count, prescale);
  for (std::size_t k = 1; k < source_count; ++k) {
    load_tile<T>(next, sources[k] + offset, count);
    if (scaling.prescale != 1.0) scale_tile<T>(next, count, prescale);
    add_tile(sum, next, count);
  }
  if constexpr (std::is_floating_point_v<Accumulator>) {
    // Where in the order the +0.0 comes makes no difference: it only turns a sum of -0.0 into +0.0.
    if (scaling.add_zero) {
      for (std::size_t i = 0; i < count; ++i) sum[i] += Accumulator{0};
    }
  }
  round_tile<T>(sum, count);
  if (scaling.postscale != 1.0) scale_tile<T>(sum, count, postscale);
  canonicalize_tile<T>(sum, count);
  store_tile<T>(destination + offset, sum, count);
}

template <typename T>
void reduce(std::byte* destination, const std::byte* const* sources, std::size_t source_count,
            std::size_t elements, const Scaling& scaling) {
  std::size_t done = 0;
  for (; elements - done >= kTile; done += kTile) {
    reduce_tile<T>(destination, sources, source_count, done * sizeof(T), kTile, scaling);
  }
  if (done != elements) {
    reduce_tile<T>(destination, sources, source_count, done * sizeof(T), elements - done, scaling);
  }
}

std::size_t scan(const std::byte* data, const BlockSegment& segment, std::size_t element_size,
                 MutableByteSpan bitmap, std::size_t first_bit) {
  const std::size_t block_bytes = segment.block_elements * element_size;
  std::size_t nonzero = 0;
  for (std::size_t block = 0; block < segment.blocks; ++block) {
    const bool last = block + 1 == segment.blocks;
    const std::size_t size = last ? segment.last_elements * element_size : block_bytes;
    if (!is_zero(data + block * block_bytes, size)) {
      set_bit(bitmap, first_bit + block);
      ++nonzero;
    }
  }
  return nonzero;
}

constexpr KernelTable make_table(const char* name) {
  return {name,
          scan,
          fill_zero,
          reduce<std::int32_t>,
          reduce<std::int64_t>,
          reduce<Float16>,
          reduce<float>,
          reduce<double>};
}
