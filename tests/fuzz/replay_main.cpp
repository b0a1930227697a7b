// Runs a fuzz target without libFuzzer: over the files named on the command line, or over seeded
// random inputs, so that the targets themselves stay alive in every build.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::cerr << "cannot read " << argv[i] << '\n';
      return 2;
    }
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  if (argc > 1) return 0;
  constexpr int kInputs = 20'000;
  std::mt19937_64 random(1);
  for (int i = 0; i < kInputs; ++i) {
    std::vector<std::uint8_t> bytes(random() % 512);
    for (std::uint8_t& byte : bytes) {
      byte = static_cast<std::uint8_t>(random() % 4 == 0 ? random() : random() % 3);
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}
