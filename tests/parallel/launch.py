"""Starts ranks as processes, with a deadline, and ends by id only what it started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hvd_omniccl.bench.launch import end_tree, horovod_rendezvous
from hvd_omniccl.bench.network import Host

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of ours, quiet, and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMNICCL_", "HOROVOD_"))}
    kept.update(TF_CPP_MIN_LOG_LEVEL="2", PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    # Ranks share two cores: threads that spin would take them from the rank that is waited for.
    kept.update(OMP_NUM_THREADS="1", TF_NUM_INTRAOP_THREADS="1", TF_NUM_INTEROP_THREADS="2")
    kept.update(extra or {})
    return kept


@dataclass(frozen=True)
class Finished:
    status: int
    output: str
    seconds: float


def run_job(command: Sequence[str], deadline: float, extra: Mapping[str, str] | None = None) -> Finished:
    """Runs a launcher with its ranks to the end; raises if that takes longer than `deadline` seconds."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment(extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        end_tree(process.pid)
        output, _ = process.communicate()
        raise AssertionError(f"{' '.join(command)} took longer than {deadline} s:\n{output}") from None
    return Finished(process.returncode, output, time.monotonic() - begin)


def horovodrun(ranks: int, script: Path, *arguments: str) -> list[str]:
    return [str(BIN / "horovodrun"), "--gloo", "-np", str(ranks), sys.executable, str(script), *arguments]


def mpirun(ranks: int, script: Path, *arguments: str) -> list[str]:
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
    # Open MPI 4.1's vectorised sums of 8-bit integers stop at the largest value instead of wrapping around.
    command += ["--mca", "op", "^avx"]
    return [*command, "-np", str(ranks), sys.executable, str(script), *arguments]


@dataclass
class Rank:
    process: subprocess.Popen[str]
    log: Path

    def output(self) -> str:
        return self.log.read_text()

    def wait(self, deadline: float) -> int:
        try:
            return self.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"rank {self.process.args} did not end:\n{self.output()}") from None


@contextmanager
def ranks_by_hand(
    count: int,
    script: Path,
    folder: Path,
    extra: Mapping[str, str] | None = None,
    hosts: Sequence[Host] | None = None,
) -> Iterator[list[Rank]]:
    """Ranks that nobody supervises: horovodrun would end all of them when one dies.

    With `hosts` rank r runs on host r, else all run on this one.
    """
    started: list[Rank] = []
    with horovod_rendezvous(count, hosts) as variables:
        try:
            for rank in range(count):
                log = folder / f"rank{rank}.log"
                with log.open("w") as sink:
                    process = subprocess.Popen(
                        [*(hosts[rank].prefix if hosts else ()), sys.executable, str(script)],
                        env=environment({**variables[rank], **(extra or {})}),
                        stdin=subprocess.DEVNULL,
                        stdout=sink,
                        stderr=subprocess.STDOUT,
                        text=True,
                    )
                started.append(Rank(process, log))
            yield started
        finally:
            for one in started:
                if one.process.poll() is None:
                    end_tree(one.process.pid)
                    one.process.wait()
