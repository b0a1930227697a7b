"""One rank of a job that starts and ends Horovod several times; says what is left each time."""

from __future__ import annotations

import threading
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_omniccl import omniccl, stats
from hvd_omniccl.sockets import tcp_bytes_sent_by_connection


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def use_once() -> None:
    """From init to shutdown, on a thread of its own: TensorFlow keeps one for each that calls it."""
    hvd.init()
    for compression in (omniccl, hvd.Compression.none):
        result = hvd.allreduce(tf.ones(1000), compression=compression, op=hvd.Sum)
        assert result.numpy().tolist() == [hvd.size()] * 1000
    hvd.shutdown()


def main() -> None:
    assert stats().operations == 0
    for round_number in (1, 2, 3):
        use_once()
        assert stats().operations == round_number
        print(f"LEFT {threads()} threads {len(tcp_bytes_sent_by_connection())} sockets", flush=True)
    assert threading.active_count() == 1


if __name__ == "__main__":
    main()
