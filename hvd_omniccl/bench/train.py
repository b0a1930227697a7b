"""``omniccl bench train``: steps per second and bytes of whole training scripts, by three ways to reduce.

A script takes ``--allreduce omniccl|dense|slices``, ``--batch-size``, ``--steps-per-epoch`` and ``--report FILE``, and
its rank 0 writes to that file as JSON: ``steps``, ``step_seconds`` (the median time of a step), ``bytes_sent`` (by a
rank in all steps) and ``loss``. Those in ``examples/`` do.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from .launch import RankCommand, horovod_rendezvous, python_script, run_together
from .network import Host
from .programs import ONE_THREAD

# Ours; the stock operation on gradients made dense; and stock on IndexedSlices, which Horovod gathers.
WAYS = ("omniccl", "dense", "slices")

_SECONDS = 1800.0


@dataclass
class Training:
    """One script with one batch size, by one way.

    Attributes
    ----------
    script
        Its file name.
    way
        How gradients are reduced, one of :data:`WAYS`.
    batch_size
        Of each rank.
    step_seconds
        The median of a run's steps, for each run.
    bytes_per_step
        Sent by a rank, on average over ranks and steps, likewise.
    losses
        At the end, likewise.
    """

    script: str
    way: str
    batch_size: int
    step_seconds: list[float] = field(default_factory=list)
    bytes_per_step: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def steps_per_second(self) -> float:
        """By the median of the runs."""
        return 1.0 / statistics.median(self.step_seconds)

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {**vars(self), "steps_per_second": self.steps_per_second}


def train(
    scripts: Sequence[Path],
    batch_sizes: Sequence[int],
    ranks: int,
    steps: int,
    rounds: int,
    hosts: Sequence[Host],
    arguments: Sequence[str],
    progress: Callable[[str], None],
) -> Iterator[Training]:
    """Run scripts by all ways in turns.

    Parameters
    ----------
    scripts, batch_sizes
        Each script with each batch size.
    ranks
        How many.
    steps
        Of each run.
    rounds
        Runs by each way.
    hosts
        Where the ranks run; empty for loopback.
    arguments
        More for each script.
    progress
        Called before each run with what is about to run.

    Raises
    ------
    LaunchError
        When a run fails.
    """
    for script in scripts:
        for batch_size in batch_sizes:
            trainings = [Training(script.name, way, batch_size) for way in WAYS]
            for _ in range(rounds):
                for training in trainings:
                    progress(f"{script.name}, batches of {batch_size}, {training.way}")
                    _run(training, script, ranks, steps, hosts, arguments)
            yield from trainings


def _run(
    training: Training, script: Path, ranks: int, steps: int, hosts: Sequence[Host], arguments: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="omniccl-bench-") as folder, horovod_rendezvous(ranks, hosts) as variables:
        report = Path(folder) / "report.json"
        options = ["--allreduce", training.way, "--batch-size", str(training.batch_size)]
        options += ["--steps-per-epoch", str(steps), "--report", str(report), *arguments]
        command = python_script(script.absolute(), *options)
        run_together(
            [
                RankCommand([*(hosts[rank].prefix if hosts else ()), *command], {**ONE_THREAD, **variables[rank]})
                for rank in range(ranks)
            ],
            _SECONDS,
        )
        figures = json.loads(report.read_text())
    training.step_seconds.append(figures["step_seconds"])
    training.bytes_per_step.append(figures["bytes_sent"] / figures["steps"])
    training.losses.append(figures["loss"])
