#include "bindings/kernel_functions.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "encoder/block_segment.h"
#include "encoder/kernels.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace py = pybind11;

namespace omniccl::bindings {
namespace {

constexpr std::size_t kLine = 64;

// Python has addresses as numbers.
std::byte* memory(std::uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Returns how many blocks are not zero. `bytes` are those of whole blocks.
std::size_t scan(const std::string& kernels, std::uintptr_t data, std::size_t bytes,
                 std::size_t element_size, std::uint32_t block_elements) {
  const std::size_t block_bytes = block_elements * element_size;
  if (block_bytes == 0 || bytes == 0 || bytes % block_bytes != 0 ||
      bytes / block_bytes > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kInvalidArgument, "scan() takes whole blocks, at least one");
  }
  const auto blocks = static_cast<std::uint32_t>(bytes / block_bytes);
  std::vector<std::byte> bitmap((blocks + 63) / 64 * 8);
  return find_kernels(kernels).scan(memory(data), {blocks, block_elements, block_elements},
                                    element_size, {bitmap.data(), bitmap.size()}, 0);
}

void fill_zero(const std::string& kernels, std::uintptr_t destination, std::size_t bytes) {
  find_kernels(kernels).fill_zero(memory(destination), bytes);
}

void reduce(const std::string& kernels, const std::string& dtype, std::uintptr_t destination,
            const std::vector<std::uintptr_t>& sources, std::size_t elements) {
  if (sources.empty()) throw Error(ErrorKind::kInvalidArgument, "reduce() takes a source");
  std::vector<const std::byte*> places;
  places.reserve(sources.size());
  for (const std::uintptr_t source : sources) places.push_back(memory(source));
  const ReduceKernel kernel = find_kernels(kernels).reduce(dtype_named(dtype));
  kernel(memory(destination), places.data(), places.size(), elements, {});
}

// Copies every second block into its place, as a rank does with the blocks that only it has.
void gather(const std::string& kernels, const std::string& dtype, std::uintptr_t destination,
            std::uintptr_t source, std::size_t elements, std::uint32_t block_elements) {
  const DataType type = dtype_named(dtype);
  const ReduceKernel kernel = find_kernels(kernels).reduce(type);
  const std::size_t block_bytes = block_elements * size_of(type);
  for (std::size_t block = 0; (block + 1) * block_elements <= elements; block += 2) {
    const std::byte* const place = memory(source) + block * block_bytes;
    kernel(memory(destination) + block * block_bytes, &place, 1, block_elements, {});
  }
}

// ---- What plain loops get from the same memory

// One load of each line, or of all of it, by the widest registers that every processor has.
std::uint64_t plain_read(std::uintptr_t data, std::size_t bytes) {
  const std::byte* const begin = memory(data);
  std::uint64_t sums[kLine / sizeof(std::uint64_t)] = {};
  for (std::size_t at = 0; at + kLine <= bytes; at += kLine) {
    std::uint64_t words[kLine / sizeof(std::uint64_t)];
    std::memcpy(words, begin + at, kLine);
    for (std::size_t i = 0; i < std::size(sums); ++i) sums[i] |= words[i];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all |= sum;
  return all;
}

void plain_copy(std::uintptr_t destination, std::uintptr_t source, std::size_t bytes) {
  std::memcpy(memory(destination), memory(source), bytes);
}

// Writes around the cache. `destination` lies at a multiple of 16, and `bytes` is one too.
void plain_write(std::uintptr_t destination, std::size_t bytes) {
#ifdef __SSE2__
  auto* const begin = reinterpret_cast<__m128i*>(memory(destination));
  for (std::size_t i = 0; i < bytes / sizeof(__m128i); ++i) {
    _mm_stream_si128(begin + i, _mm_setzero_si128());
  }
  _mm_sfence();
#else
  std::memset(memory(destination), 0, bytes);
#endif
}

}  // namespace

void define_kernel_functions(py::module_ module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  module.def("scan", &scan, unlocked, py::arg("kernels"), py::arg("data"), py::arg("bytes"),
             py::arg("element_size"), py::arg("block_elements"));
  module.def("fill_zero", &fill_zero, unlocked, py::arg("kernels"), py::arg("destination"),
             py::arg("bytes"));
  module.def("reduce", &reduce, unlocked, py::arg("kernels"), py::arg("dtype"),
             py::arg("destination"), py::arg("sources"), py::arg("elements"));
  module.def("gather", &gather, unlocked, py::arg("kernels"), py::arg("dtype"),
             py::arg("destination"), py::arg("source"), py::arg("elements"),
             py::arg("block_elements"));
  module.def("plain_read", &plain_read, unlocked, py::arg("data"), py::arg("bytes"));
  module.def("plain_copy", &plain_copy, unlocked, py::arg("destination"), py::arg("source"),
             py::arg("bytes"));
  module.def("plain_write", &plain_write, unlocked, py::arg("destination"), py::arg("bytes"));
}

}  // namespace omniccl::bindings
