// The generic body of the kernels. Included once per instruction set, inside an anonymous namespace
// (and, where the compiler would not use these instructions by itself, a target region), after
// these are defined there:
//   Vector, with
//     Vector load(const std::byte* data)                          from any address
//     Vector load_part(const std::byte* data, std::size_t size)   `size` bytes, zeros behind them
//     Vector either(Vector a, Vector b)                           bitwise or
//     bool is_zero(Vector value)
//   std::size_t kHalves, with
//     void load_halves(float* out, const std::byte* in)           kHalves elements
//     void store_halves(std::byte* out, const float* in)          rounds to nearest even
//   void fill_zero(std::byte* destination, std::size_t size)
// The compiler vectorises the loops over a tile of constant length; no flag that changes
// floating-point results is allowed (no -ffast-math, no contraction).

constexpr std::size_t kTile = 64;  // elements; a tile of accumulators stays in registers and L1

inline bool is_zero(const std::byte* data, std::size_t size) {
  constexpr std::size_t kVector = sizeof(Vector);
  constexpr std::size_t kGroup =
      4 * kVector;  // one test a group: cheap, and dense blocks end early
  if (size < kVector) return is_zero(load_part(data, size));
  std::size_t offset = 0;
  for (; offset + kGroup <= size; offset += kGroup) {
    const std::byte* group = data + offset;
    const Vector any = either(either(load(group), load(group + kVector)),
                              either(load(group + 2 * kVector), load(group + 3 * kVector)));
    if (!is_zero(any)) return false;
  }
  for (; offset < size; offset += kVector) {
    // The last vector may overlap the one before it.
    if (!is_zero(load(data + std::min(offset, size - kVector)))) return false;
  }
  return true;
}

inline void load_half(float* out, const std::byte* in, std::size_t count) {
  const std::size_t whole = count - count % kHalves;
  for (std::size_t i = 0; i < whole; i += kHalves) load_halves(out + i, in + i * sizeof(Float16));
  for (std::size_t i = whole; i < count; ++i) {
    Float16 half;
    std::memcpy(&half, in + i * sizeof half, sizeof half);
    out[i] = half_to_float(half);
  }
}

inline void store_half(std::byte* out, const float* in, std::size_t count) {
  const std::size_t whole = count - count % kHalves;
  for (std::size_t i = 0; i < whole; i += kHalves) store_halves(out + i * sizeof(Float16), in + i);
  for (std::size_t i = whole; i < count; ++i) {
    const Float16 half = float_to_half(in[i]);
    std::memcpy(out + i * sizeof half, &half, sizeof half);
  }
}

// What the elements are added in, and what type a scale factor has.
template <typename T, bool kIsInteger = std::is_integral_v<T>>
struct Arithmetic {
  using Accumulator = T;
  using Factor = T;
};
template <>
struct Arithmetic<Float16> {
  using Accumulator = float;
  using Factor = float;
};
template <>
struct Arithmetic<Bool> {
  using Accumulator = std::uint8_t;  // 0 or 1
  using Factor = double;
};
template <typename T>
struct Arithmetic<T, true> {
  using Accumulator = std::make_unsigned_t<T>;  // wraps around without undefined behaviour
  using Factor = double;                        // as Horovod scales integers
};

template <typename T>
inline void load_tile(typename Arithmetic<T>::Accumulator* tile, const std::byte* source,
                      std::size_t count) {
  if constexpr (std::is_same_v<T, Float16>) {
    load_half(tile, source, count);
  } else {
    std::memcpy(tile, source, count * sizeof(T));
  }
  if constexpr (std::is_same_v<T, Bool>) {
    for (std::size_t i = 0; i < count; ++i) tile[i] = tile[i] != 0;
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
    std::byte stored[kTile * sizeof(Float16)];
    store_half(stored, tile, count);
    load_half(tile, stored, count);
  }
}

// `value` as the C cast of x86 converts it, on every processor: truncated to a signed integer of 32
// bits or more, the lowest one for what does not fit, of which T takes the low bits.
template <typename T>
inline T truncate(double value) {
  using Wide = std::conditional_t<sizeof(T) < sizeof(std::int32_t), std::int32_t, T>;
  constexpr Wide kLowest = std::numeric_limits<Wide>::min();
  constexpr auto kLow = static_cast<double>(kLowest);
  const bool fits = value >= kLow && value < -kLow;
  return static_cast<T>(fits ? static_cast<Wide>(fits ? value : 0.0) : kLowest);
}

template <typename T>
inline void scale_tile(typename Arithmetic<T>::Accumulator* tile, std::size_t count,
                       typename Arithmetic<T>::Factor factor) {
  using Accumulator = typename Arithmetic<T>::Accumulator;
  if constexpr (std::is_same_v<T, Bool>) return;  // true times a positive factor is true
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      const auto value = static_cast<double>(static_cast<T>(tile[i]));
      tile[i] = static_cast<Accumulator>(truncate<T>(factor * value));
    } else {
      tile[i] = static_cast<Accumulator>(factor * tile[i]);
    }
  }
  round_tile<T>(tile, count);
}

template <typename T>
inline void add_tile(typename Arithmetic<T>::Accumulator* tile,
                     const typename Arithmetic<T>::Accumulator* other, std::size_t count) {
  using Accumulator = typename Arithmetic<T>::Accumulator;
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, Bool>) {
      tile[i] = static_cast<Accumulator>(tile[i] | other[i]);
    } else {
      tile[i] = static_cast<Accumulator>(tile[i] + other[i]);
    }
  }
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
    add_tile<T>(sum, next, count);
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

ReduceKernel reduce_for(DataType dtype) {
  return dispatch(dtype,
                  [](auto tag) -> ReduceKernel { return reduce<typename decltype(tag)::Type>; });
}

constexpr KernelTable make_table(const char* name) { return {name, scan, fill_zero, reduce_for}; }
