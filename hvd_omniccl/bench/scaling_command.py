"""``omniccl bench scaling``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import click

from .options import ListOf, integer
from .simulation import (
    PLACEMENTS,
    Row,
    System,
    markdown,
    memory_table,
    pivot,
    read_measurements,
    scaling_table,
    validation_table,
    window_table,
)

_NUMBERS = ListOf(integer(1, 1 << 20), "N", "1 or more")


@click.command()
@click.option("--ranks", type=_NUMBERS, help="By default those of docs/scaling.md.")
@click.option("--gbit", type=_NUMBERS, help="Rates of the links; with --table memory or window: one.")
@click.option(
    "--ranks-per-card",
    type=ListOf(integer(0, 1 << 20), "N", "0 or more"),
    help="0: embedded shards. With --table memory: one.",
)
@click.option(
    "--placement",
    type=click.Choice(PLACEMENTS),
    default="random",
    show_default=True,
    help="Of the blocks, for --table ranks.",
)
@click.option("--offload", is_flag=True, help="Adapters move the bytes, not the kernel's TCP.")
@click.option(
    "--table",
    type=click.Choice(["ranks", "memory", "window"]),
    default="ranks",
    show_default=True,
    help="Time over ranks and links; over slot memory; or over chunk and window.",
)
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Instead simulate what bench allreduce measured, of which this is the --json, and compare.",
)
@click.option("--json", "as_json", is_flag=True, help="All columns, for programs.")
def scaling(
    ranks: Optional[Sequence[int]],
    gbit: Optional[Sequence[int]],
    ranks_per_card: Optional[Sequence[int]],
    placement: str,
    offload: bool,
    table: str,
    against: Optional[Path],
    as_json: bool,
) -> None:
    """Simulate an allreduce of 100 MiB on more ranks and faster links than there are here.

    Prints tables in Markdown; docs/scaling.md explains them.
    """
    if against is not None:
        rows = shown = _compared(against)
    else:
        rows, by = _simulated(ranks, gbit, ranks_per_card, placement, offload, table)
        shown = pivot(rows, by)
    click.echo(json.dumps(rows, indent=1) if as_json else markdown(shown))


def _compared(path: Path) -> list[Row]:
    try:
        return validation_table(read_measurements(path), System())
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{path} is not what bench allreduce wrote: {error!r}") from error


def _simulated(
    ranks: Optional[Sequence[int]],
    gbit: Optional[Sequence[int]],
    ranks_per_card: Optional[Sequence[int]],
    placement: str,
    offload: bool,
    table: str,
) -> tuple[list[Row], str]:
    """Return the rows of a table, and the column that is spread out."""
    options: dict[str, Any] = {"offload": offload}
    if ranks:
        options["ranks"] = ranks
    if table == "window":
        return window_table(gbit=gbit[0] if gbit else 100, **options), "window KiB"
    if table == "memory":
        each = ranks_per_card[0] if ranks_per_card else 0
        return memory_table(gbit=gbit[0] if gbit else 25, ranks_per_card=each, **options), "density %"
    for name, value in (("gbits", gbit), ("ranks_per_card", ranks_per_card)):
        if value:
            options[name] = value
    return scaling_table(placement=placement, **options), "density %"
