"""``omniccl bench train``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Optional

import click

from .launch import LaunchError, ended_in_order
from .network import Host, network_of, reason_against
from .options import MAX_RANKS, OUTPUT, ListOf, file_to_write, integer
from .options import rate as rate_option
from .programs import PROGRAMS


def _horovod_is_missing() -> Optional[str]:
    return next(program for program in PROGRAMS if program.name == "horovod-gloo").missing()


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--ranks", type=click.IntRange(1, MAX_RANKS), default=4, show_default=True)
@click.option("--rate", callback=rate_option, help="As for allreduce; by default all is on loopback.")
@click.option(
    "--batch-size",
    "batch_sizes",
    type=ListOf(integer(1, 1 << 30), "N", "1 or more"),
    default="256",
    show_default=True,
    help="Of each rank.",
)
@click.option("--steps", type=click.IntRange(3), default=100, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs by each way.")
@click.option("--json", "json_path", type=OUTPUT, callback=file_to_write, help="Write all figures here.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def train(
    ranks: int,
    rate: Optional[str],
    batch_sizes: Sequence[int],
    steps: int,
    rounds: int,
    json_path: Optional[Path],
    script: Path,
    arguments: tuple[str, ...],
) -> None:
    """Time SCRIPT, one of those in examples/, on stock Horovod and on omniccl.

    By three ways in turns: omniccl; stock on dense gradients; and stock on IndexedSlices, which Horovod gathers. All
    that follows SCRIPT goes to it.
    """
    from .report import training_table
    from .results import machine
    from .train import train as run_all

    if rate is not None and (reason := reason_against()):
        raise click.ClickException(f"--rate: {reason}")
    if reason := _horovod_is_missing():
        raise click.ClickException(reason)
    network: AbstractContextManager[list[Host]]
    network = nullcontext([]) if rate is None else network_of(max(2, ranks), rate or None)
    try:
        with ended_in_order(), network as hosts:
            tell = partial(click.echo, err=True)
            trainings = list(run_all([script], batch_sizes, ranks, steps, rounds, hosts, arguments, tell))
    except LaunchError as error:
        raise click.ClickException(str(error)) from error
    click.echo(training_table(trainings))
    if json_path is not None:
        everything = {"machine": machine(), "ranks": ranks, "rate": rate, "trainings": [t.to_json() for t in trainings]}
        json_path.write_text(json.dumps(everything, indent=1) + "\n")
