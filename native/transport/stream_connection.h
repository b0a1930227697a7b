// Frames over a stream of bytes. Payloads go straight from and to the caller's memory. Small frames
// are read many at a time through a staging buffer.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "transport/byte_stream.h"
#include "transport/connection.h"

namespace omniccl {

class StreamConnection final : public Connection {
 public:
  // `handshake_sent` and `handshake_received` are bytes that already went, for the counts.
  StreamConnection(std::unique_ptr<ByteStream> stream, std::string peer,
                   std::uint64_t max_payload_bytes, std::uint64_t handshake_sent,
                   std::uint64_t handshake_received);

  OutgoingFrame& prepare() override;
  void submit() override;
  bool flush() override;
  bool receive(FrameSink& sink) override;
  const std::string& closed_because() const override { return stream_->closed_because(); }
  std::size_t unsent_frames() const override { return queue_.size(); }
  void drop_unstarted() override;
  void stop_receiving() noexcept override { stream_->stop_reading(); }
  void close_sending() noexcept override;
  int descriptor() const override { return stream_->descriptor(); }
  Poller::Interest interest(Poller::Interest wanted) const override {
    return stream_->interest(wanted);
  }
  const std::string& peer() const override { return peer_; }
  TrafficCounts traffic() const override { return traffic_; }

 private:
  void gather();                      // fills iovecs_ from the queue
  void mark_sent(std::size_t bytes);  // advances the queue
  // Reads once into the rest of the payload and the staging buffer; false when there is nothing.
  bool read_some();
  void parse(FrameSink& sink);  // what staging and payload hold, as far as it is complete
  void copy_from_staging();
  void end_frame(FrameSink& sink);
  std::size_t staging_wanted() const;

  std::unique_ptr<ByteStream> stream_;
  std::string peer_;
  std::uint64_t max_payload_bytes_;
  TrafficCounts traffic_;

  // Sending. Frames are used again: their buffers keep their capacity.
  std::deque<std::unique_ptr<OutgoingFrame>> queue_;
  std::vector<std::unique_ptr<OutgoingFrame>> free_;
  std::unique_ptr<OutgoingFrame> prepared_;
  std::size_t next_piece_ = 0;    // of the queue's first frame
  std::size_t piece_offset_ = 0;  // bytes of that piece already sent
  std::vector<iovec> iovecs_;

  // Receiving.
  std::vector<std::byte> staging_;
  std::size_t staging_begin_ = 0;
  std::size_t staging_end_ = 0;
  bool in_payload_ = false;
  std::vector<iovec> payload_;      // destinations of the frame in progress
  std::size_t payload_piece_ = 0;   // first that is not full
  std::size_t payload_offset_ = 0;  // bytes of it that are there
  std::uint32_t payload_checksum_ = 0;
  bool check_payload_ = false;
  // Of the last frame; at first those of a large one, so that it is not copied.
  std::uint64_t last_frame_bytes_;
  std::size_t last_head_bytes_;
};

}  // namespace omniccl
