"""Every case of every job size, each as a test."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from case import read_report
from cases import CASES
from launch import HERE, horovodrun, mpirun, run_job

# The kernel counts the bytes of TCP alone (cases_traffic.py, cases_models.py).
TRANSPORTS = {1: "auto", 2: "tcp", 3: "shm", 4: "tcp"}  # by size
DEADLINE_SECONDS = 540

pytestmark = pytest.mark.timeout(DEADLINE_SECONDS + 60)  # the first test of a size runs the job


@functools.cache
def job_report(size: int, launcher: str) -> tuple[list[dict[str, str | None]], str]:
    """The reports of all ranks of one job, launched at the first call, and its output."""
    with tempfile.TemporaryDirectory() as name:
        command = {"gloo": horovodrun, "mpi": mpirun}[launcher]
        try:
            transport = TRANSPORTS[size] if launcher == "gloo" else "auto"
            job = command(size, HERE / "job.py", name, launcher)
            output = run_job(job, DEADLINE_SECONDS, {"OMNICCL_TRANSPORT": transport}).output
        except AssertionError as failure:  # the cases that it did finish count all the same
            output = str(failure)
        return [read_report(Path(name) / f"rank{rank}.jsonl") for rank in range(size)], output


def check(size: int, launcher: str, name: str) -> None:
    reports, output = job_report(size, launcher)
    for rank, report in enumerate(reports):
        if name not in report:
            pytest.fail(f"rank {rank} did not finish {name}; the job's output:\n{output[-6000:]}")
        if report[name] is not None:
            pytest.fail(f"on rank {rank}:\n{report[name]}", pytrace=False)


@pytest.mark.parametrize(
    ("size", "name"),
    [(size, one.name) for size in TRANSPORTS for one in CASES if size in one.sizes],
)
def test_gloo(size: int, name: str) -> None:
    check(size, "gloo", name)


@pytest.mark.parametrize("name", [one.name for one in CASES if one.mpi])
def test_mpi(name: str) -> None:
    check(2, "mpi", name)
