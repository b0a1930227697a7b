"""One rank of a benchmark job: ``python -m hvd_omniccl.bench.rank PLAN [RANK]``.

Runs the cases of a plan and appends what it measured to a file of its own. Ranks begin each reduction together, at a
barrier in shared memory that costs no peer anything.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .case import Case, fill_expected, fill_input
from .peers import Job, Peer, open_peer

# A word in a cache line of its own for each rank.
_LINE_WORDS = 8
_CHECK_ELEMENTS = 1 << 22


class Barrier:
    """All ranks of one machine wait for each other."""

    def __init__(self, path: Path, rank: int, size: int) -> None:
        self._words = np.memmap(path, np.int64, "r+", shape=(size, _LINE_WORDS))[:, 0]
        self._rank = rank
        self._turn = 0

    def wait(self) -> None:
        """Return when all ranks have called this as often as this one."""
        self._turn += 1
        self._words[self._rank] = self._turn
        while self._words.min() < self._turn:
            os.sched_yield()

    @staticmethod
    def make(path: Path, size: int) -> None:
        """Make the file that ``size`` ranks share."""
        path.write_bytes(bytes(size * _LINE_WORDS * 8))


def run_case(peer: Peer, barrier: Barrier, plan: dict[str, Any], number: int, sink: TextIO) -> None:
    """Measure one case in all modes of the peer, and write a line for each.

    One mode after the other, as a training would run: in turns each would find the memory as the other left it, and
    what a slow one freed may long have gone back to the machine.
    """
    case = Case(**plan["cases"][number])
    data = np.empty(case.elements, case.dtype)
    fill_input(case, plan["seed"], peer.rank, data)
    peer.prepare(case, data)
    for mode in peer.modes:
        line: dict[str, Any] = {"case": number, "mode": mode, "begin": [], "end": [], "cpu": [], "wrong": 0}
        for turn in range(plan["warmups"] + plan["repetitions"]):
            barrier.wait()
            cpu = time.process_time()
            begin = time.monotonic_ns()
            peer.reduce(mode)
            end = time.monotonic_ns()
            cpu = time.process_time() - cpu
            if turn == 0:
                line["wrong"] = count_wrong(case, plan["seed"], peer)
            if turn >= plan["warmups"]:
                line["begin"].append(begin)
                line["end"].append(end)
                line["cpu"].append(cpu)
        print(json.dumps(line), file=sink, flush=True)


def count_wrong(case: Case, seed: int, peer: Peer) -> int:
    """Return how many elements of the last result are not what they should be."""
    expected = np.empty(case.elements, case.dtype)
    fill_expected(case, seed, expected)
    result = peer.result()
    return sum(
        int(np.count_nonzero(result[at : at + _CHECK_ELEMENTS] != expected[at : at + _CHECK_ELEMENTS]))
        for at in range(0, case.elements, _CHECK_ELEMENTS)
    )


def main() -> None:
    """Run the plan."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(plan["folder"])
    rank = int(sys.argv[2]) if len(sys.argv) > 2 else -1
    peer = open_peer(plan["module"], Job(folder, rank, plan["ranks"], plan["interface"], plan["options"]))
    barrier = Barrier(folder / "barrier", peer.rank, peer.size)
    with (folder / f"times.{peer.rank}").open("w") as sink:
        for number in range(len(plan["cases"])):
            run_case(peer, barrier, plan, number, sink)
    barrier.wait()
    peer.close()


if __name__ == "__main__":
    main()
