"""One rank of two that reduces tensors of several sizes: `peak_memory.py omniccl|stock FILE`.

Rank 0 writes by how much it grew at most in each reduction.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from memory import peak_growth
from tied_table import gradient_of, tied_table

from hvd_omniccl import omniccl

MEBI = 1 << 20


def main() -> None:
    compression: Any = {"omniccl": omniccl, "stock": hvd.Compression.none}[sys.argv[1]]
    hvd.init()
    for _ in range(2):
        hvd.allreduce(tf.ones(MEBI), compression=compression)  # connections, threads, first uses
    table = tied_table()
    _, peak = peak_growth(lambda: gradient_of(table, compression))
    report = {"tied table": peak}
    # All stay alive: TensorFlow keeps what is freed, and the next would grow into that unseen.
    alive = []
    for size in (64, 256):
        for density in (0.01, 1.0):
            elements = size * MEBI // 4
            ones = tf.ones(int(density * elements))
            tensor = tf.pad(ones, [[0, elements - len(ones)]])
            result, peak = peak_growth(lambda tensor=tensor: hvd.allreduce(tensor, compression=compression))  # type: ignore[misc]
            report[f"{size} MiB at density {density}"] = peak
            alive += [ones, tensor, result]
    if hvd.rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps(report))
    hvd.shutdown()


if __name__ == "__main__":
    main()
