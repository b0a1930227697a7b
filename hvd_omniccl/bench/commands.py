"""``omniccl bench``: the command line of the benchmark."""

from __future__ import annotations

import click

from .allreduce_command import allreduce
from .kernels_command import kernels
from .scaling_command import scaling
from .train_command import train


@click.group()
def bench() -> None:
    """Measure the allreduce beside its peers, the inner loops, and trainings.

    Needs the packages of pip install 'hvd_omniccl[bench]'.
    """
    try:
        import tabulate  # noqa: F401
    except ImportError:
        raise click.ClickException("a package is missing: pip install 'hvd_omniccl[bench]'") from None


for command in (allreduce, kernels, scaling, train):
    bench.add_command(command)
