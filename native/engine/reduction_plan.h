// What is checked and decided about an allreduce before anything moves.
#pragma once

#include <cstdint>

#include "encoder/chunk_plan.h"
#include "engine/communicator.h"
#include "protocol/slot_memory.h"

namespace omniccl {

// Throws Error(kInvalidArgument) for impossible factors or block sizes, Error(kPrecondition) when a
// block does not fit `memory`.
void check_reduction(const Reduction& reduction, const SlotMemory& memory);

// How the tensors are cut: every one of `shards` gets a share of a small operation, as long as that
// leaves chunks worth a frame.
ChunkLimits chunk_limits(const Reduction& reduction, const SlotMemory& memory,
                         std::uint32_t shards);

}  // namespace omniccl
