// What the Python side decided (hvd_omniccl/config.py), as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/socket/host_port.h"
#include "transport/transport_choice.h"

namespace omniccl::horovod_op {

enum class Intercept : std::uint8_t {
  kOff = 0,     // everything to the stock operation
  kTagged = 1,  // the tensors that carry our tag
  kAll = 2,     // those without one too, in the default block
};

struct Settings {
  Intercept intercept = Intercept::kTagged;
  std::uint32_t block_elements = 0;  // overrides the tag's block size; 0 for none
  std::uint64_t slot_memory_bytes = 0;
  std::vector<HostPort> aggregators;  // dedicated shards; none: embedded ones
  std::string secret_file;            // with aggregators
  Transport transport = Transport::kAuto;
  std::string congestion_control = "auto";
  std::string interface;         // to listen and connect on; empty: any
  std::uint16_t first_port = 0;  // range to listen in; 0: any port
  std::uint16_t last_port = 0;
  bool payload_checksum = true;
  bool huge_pages = true;
  Milliseconds timeout{30'000};
  Milliseconds connect_timeout{10'000};
  std::string kernels = "auto";
  std::string package_version;
};

}  // namespace omniccl::horovod_op
