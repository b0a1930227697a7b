"""One rank that reduces 64 MiB by turns with stock Horovod and with omniccl; rank 0 prints the times."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hvd_omniccl import omniccl

BYTES = 64 << 20
ROW = 256  # elements, one block
DENSITIES = (1.0, 0.5, 0.1, 0.01)
ROUNDS = 9


def seconds(value: tf.Tensor, compression: Any) -> float:
    hvd.allreduce(tf.zeros(1))  # the ranks begin together
    begin = time.monotonic()
    hvd.allreduce(value, compression=compression, op=hvd.Sum)
    return time.monotonic() - begin


def compare(density: float) -> dict[str, float]:
    """The median times for data with this share of rows that are not zero, others on each rank."""
    rng = np.random.default_rng(hvd.rank())
    data = rng.standard_normal((BYTES // 4 // ROW, ROW), np.float32)
    data[rng.random(len(data)) >= density] = 0
    value = tf.constant(data)
    modes = {"stock": hvd.Compression.none, "omniccl": omniccl}
    times = {name: [seconds(value, compression) for _ in range(2)] for name, compression in modes.items()}
    for name in times:
        times[name].clear()  # connections and fresh pages are not the subject
    for _ in range(ROUNDS):
        for name, compression in modes.items():
            times[name].append(seconds(value, compression))
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    hvd.init()
    for density in DENSITIES:
        times = compare(density)
        if hvd.rank() == 0:
            print("TIMES", json.dumps({"density": density, **times}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
