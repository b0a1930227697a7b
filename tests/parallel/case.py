"""The list of cases that run inside of a job, and how one rank runs them.

A launch costs ten seconds and more, so one launch per number of ranks runs all its cases. Each rank
writes what became of each case; test_jobs.py shows every case as a test of its own.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    name: str
    sizes: tuple[int, ...]
    mpi: bool
    function: Callable[[], None]


CASES: list[Case] = []


def case(*sizes: int, mpi: bool = False) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Declares a case for jobs of these sizes, with `mpi` also for a two-rank job on MPI."""

    def declare(function: Callable[[], None]) -> Callable[[], None]:
        CASES.append(Case(function.__name__, sizes, mpi, function))
        return function

    return declare


def run_cases(cases: Sequence[Case], report: Path) -> None:
    """Runs all cases on this rank. A line per case, written at once: a rank that dies leaves what it has."""
    with report.open("w") as sink:
        for one in cases:
            begin = time.monotonic()
            failure = None
            try:
                one.function()
            except Exception:
                failure = traceback.format_exc()
            seconds = round(time.monotonic() - begin, 2)
            sink.write(json.dumps({"case": one.name, "failure": failure, "seconds": seconds}) + "\n")
            sink.flush()


def read_report(report: Path) -> dict[str, str | None]:
    """What became of each case on one rank: None for success, else the traceback."""
    if not report.exists():
        return {}
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    return {line["case"]: line["failure"] for line in lines}
