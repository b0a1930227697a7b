"""One rank of a job: `job.py FOLDER LAUNCHER` runs the cases for its size and reports into FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf
from case import run_cases
from cases import CASES
from support import remember_horovods_connections


def main() -> None:
    folder, launcher = Path(sys.argv[1]), sys.argv[2]
    tf.config.experimental.enable_op_determinism()
    hvd.init(process_sets="dynamic")
    remember_horovods_connections()
    chosen = [one for one in CASES if hvd.size() in one.sizes and (launcher == "gloo" or one.mpi)]
    run_cases(chosen, folder / f"rank{hvd.rank()}.jsonl")
    hvd.shutdown()


if __name__ == "__main__":
    main()
