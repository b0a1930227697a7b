"""One rank of a job whose last rank is killed in the middle of a reduction."""

from __future__ import annotations

import os
import signal
import threading
import time

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_omniccl import omniccl, tcp_bytes_sent

ELEMENTS = 16 << 20
MOST_STEPS = 10_000


def die_at(bytes_sent: float) -> None:
    """Kills this process when it has sent so much."""
    while tcp_bytes_sent() < bytes_sent:
        time.sleep(0.0005)  # polling; the launcher has the deadline
    os.kill(os.getpid(), signal.SIGKILL)


def one_line(message: str) -> str:
    """TensorFlow puts the place in the program, over several lines, before our text."""
    return " ".join(message.split())


def main() -> None:
    hvd.init()
    value = tf.ones(ELEMENTS)
    before = tcp_bytes_sent()
    hvd.allreduce(value, compression=omniccl, op=hvd.Sum)
    after = tcp_bytes_sent()
    if hvd.rank() == hvd.size() - 1:
        inside_of_an_operation = after + 3.5 * (after - before)
        threading.Thread(target=die_at, args=(inside_of_an_operation,), daemon=True).start()
    begin = time.monotonic()
    try:
        for _ in range(MOST_STEPS):
            begin = time.monotonic()
            hvd.allreduce(value, compression=omniccl, op=hvd.Sum)
    except tf.errors.UnknownError as error:
        print(f"FAILED AFTER {time.monotonic() - begin:.1f} s: {one_line(error.message)}", flush=True)
        raise SystemExit(3) from None


if __name__ == "__main__":
    main()
