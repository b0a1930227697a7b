"""Compares the times of stock Horovod (Gloo) and omniccl on two ranks, and prints them as a table.

    .venv/bin/python tests/parallel/compare_times.py

On loopback, and as root also on two network namespaces with links of 1 Gbit/s. Not a test: the figures depend on
the machine, and on what else it does.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hosts import Host, network_of, reason_to_skip
from launch import HERE, ranks_by_hand

DEADLINE_SECONDS = 300


def compare(network: str, hosts: Sequence[Host] | None) -> None:
    script = HERE / "compares_times.py"
    with tempfile.TemporaryDirectory() as folder, ranks_by_hand(2, script, Path(folder), hosts=hosts) as ranks:
        deadline = time.monotonic() + DEADLINE_SECONDS
        for rank in ranks:
            if rank.wait(deadline) != 0:
                raise SystemExit(rank.output())
        output = ranks[0].output()
    for line in re.findall("^TIMES (.*)$", output, re.MULTILINE):
        times = json.loads(line)
        ratio = times["omniccl"] / times["stock"]
        print(
            f"| {network} | {times['density']:.0%} | {times['stock']:.3f} s | {times['omniccl']:.3f} s | {ratio:.2f} |"
        )


def main() -> None:
    print("| network | blocks that are not zero | stock | omniccl | ratio |\n|---|---|---|---|---|")
    compare("loopback", None)
    if reason := reason_to_skip():
        raise SystemExit(f"not on 1 Gbit/s: {reason}")
    with network_of(2, rate="1gbit") as hosts:
        compare("1 Gbit/s", hosts)


if __name__ == "__main__":
    main()
