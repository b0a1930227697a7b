#!/usr/bin/env python3
"""Trains examples/keras_ncf_movielens.py on stock Horovod with Gloo, then with omniccl, and compares the two."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "keras_ncf_movielens.py"


def train(ranks: int, report: Path, options: list[str]) -> dict[str, Any]:
    """Runs the example under horovodrun and returns its report."""
    horovodrun = Path(sys.executable).with_name("horovodrun")
    command = [str(horovodrun), "--gloo", "-np", str(ranks), sys.executable, str(EXAMPLE)]
    command += ["--report", str(report), *options]
    print("$", " ".join(command), flush=True)
    environment = {
        "TF_CPP_MIN_LOG_LEVEL": "2",  # without TensorFlow's remarks on the machine
        "OMNICCL_TRANSPORT": "tcp",  # as between hosts: the kernel counts no bytes in shared memory
        **os.environ,
    }
    status = subprocess.run(command, env=environment).returncode
    if status != 0:
        sys.exit(f"demo: the training failed with status {status}; its output is above")
    figures: dict[str, Any] = json.loads(report.read_text())
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Other options go to the example, for instance --epochs or --steps-per-epoch."
    )
    parser.add_argument("--ranks", type=int, default=2)
    args, options = parser.parse_known_args()

    with tempfile.TemporaryDirectory() as folder:
        stock = train(args.ranks, Path(folder) / "stock.json", ["--allreduce", "dense", *options])
        ours = train(args.ranks, Path(folder) / "omniccl.json", options)

    print(f"\n{'':16}{'held-out loss':>15}{'HR@10':>8}{'time':>10}{'sent per rank':>17}")
    for run in (stock, ours):
        print(
            f"{run['allreduce']:16}{run['loss']:15.6f}{run['hit_rate']:8.3f}"
            f"{run['seconds']:8.1f} s{run['bytes_sent'] / 1e6:14,.1f} MB"
        )
    print(f"omniccl sent {stock['bytes_sent'] / max(1, ours['bytes_sent']):.1f} times fewer bytes.")


if __name__ == "__main__":
    main()
