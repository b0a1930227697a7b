// Which jobs are on this daemon, who of them is there, and what memory they have reserved. The
// acceptor asks it, service threads tell it: the one thing that they share.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/job_key.h"
#include "protocol/handshake.h"
#include "protocol/slot_memory.h"

namespace omniccl {

class JobRegistry {
 public:
  // `slot_memory_bytes`: for all jobs together. `threads`: how many there are to give jobs to.
  JobRegistry(std::uint64_t slot_memory_bytes, std::size_t threads);

  struct Place {
    bool is_new = false;     // nobody of this job came before
    std::size_t thread = 0;  // that serves it
    SlotMemory memory;
  };
  // Finds the job of an authenticated worker or makes room for it. Throws Error, which its sender
  // is told, when it contradicts what others of its job said or when there is no room.
  Place admit(const Hello& hello);
  // The worker's connection is there. Returns the thread that serves it, or nothing if its job has
  // ended meanwhile.
  std::optional<std::size_t> enter(const Hello& hello);
  // The job is over: its memory is free.
  void leave(const JobKey& key);

  std::size_t jobs() const;
  // "2 jobs, 5.0 of 64.0 MiB reserved", for messages.
  std::string summary() const;

 private:
  struct Record {
    SessionTerms terms;
    Place place;
    std::vector<bool> entered;  // [rank]
  };

  Place make_room(const Hello& hello);
  std::size_t idlest_thread() const;

  mutable std::mutex mutex_;
  std::uint64_t total_bytes_;
  std::uint64_t reserved_bytes_ = 0;
  std::vector<std::size_t> jobs_of_thread_;
  std::map<JobKey, Record> records_;
};

}  // namespace omniccl
