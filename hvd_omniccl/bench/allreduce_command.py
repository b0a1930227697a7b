"""``omniccl bench allreduce``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import click
import numpy as np

from .campaign import Campaign, Measurement, Settings, available_bytes, hosts_for, needed_bytes
from .case import PLACEMENTS, TRANSPORTS, Case
from .launch import ended_in_order
from .network import Host, reason_against
from .options import (
    MAX_RANKS,
    MAX_TENSORS,
    OUTPUT,
    ListOf,
    SizeType,
    file_to_write,
    integer,
    one_of,
    share_from_percent,
)
from .options import rate as rate_option
from .programs import PROGRAMS, Program
from .units import size_from, size_text

_DTYPES = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8")


@click.command()
@click.option("--ranks", type=ListOf(integer(1, MAX_RANKS), "N", f"1 to {MAX_RANKS}"), default="2,4", show_default=True)
@click.option(
    "--size",
    "sizes",
    type=ListOf(size_from, "BYTES", "a size such as 4K, 100M or 1G"),
    default="100M",
    show_default=True,
    help="Of the tensor at each rank; K, M and G are powers of 1024.",
)
@click.option(
    "--density",
    "densities",
    type=ListOf(share_from_percent, "PERCENT", "0 to 100"),
    default="100,10,1",
    show_default=True,
    help="Blocks that are not zero.",
)
@click.option(
    "--placement",
    "placements",
    type=ListOf(one_of(*PLACEMENTS), "WORD", ", ".join(PLACEMENTS)),
    default="random",
    show_default=True,
    help=f"Where those blocks are: {', '.join(PLACEMENTS)} (as in a vocabulary sorted by frequency).",
)
@click.option(
    "--dtype",
    "dtypes",
    type=ListOf(one_of(*_DTYPES), "NAME", ", ".join(_DTYPES)),
    default="float32",
    show_default=True,
)
@click.option(
    "--block-size",
    "block_sizes",
    type=ListOf(integer(1, 65536), "ELEMENTS", "1 to 65536"),
    default="256",
    show_default=True,
    help="Elements of a block.",
)
@click.option(
    "--aggregators",
    type=ListOf(integer(0, MAX_RANKS), "N", f"0 to {MAX_RANKS}"),
    default="0",
    show_default=True,
    help="Dedicated aggregators; 0: embedded in the ranks.",
)
@click.option(
    "--tensors",
    type=ListOf(integer(1, MAX_TENSORS), "N", f"1 to {MAX_TENSORS}"),
    default="1",
    show_default=True,
    help="Cut the data into so many; one call or group of calls reduces them all.",
)
@click.option(
    "--transport",
    "transports",
    type=ListOf(one_of(*TRANSPORTS), "WORD", ", ".join(TRANSPORTS)),
    default="auto",
    show_default=True,
    help="Of omniccl; its peers run once.",
)
@click.option(
    "--program",
    "program_names",
    type=ListOf(one_of(*(program.name for program in PROGRAMS)), "NAME", ", ".join(p.name for p in PROGRAMS)),
    help="What to compare; by default all that are installed.",
)
@click.option(
    "--rate",
    callback=rate_option,
    help="Run each rank on a network namespace of its own, with links of this rate, such as 1gbit, or unlimited. "
    "Needs root. By default all is on loopback.",
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=2, show_default=True, help="Starts of each program.")
@click.option(
    "--repetitions", type=click.IntRange(1, 10000), default=5, show_default=True, help="Of each case in a round."
)
@click.option("--warmups", type=click.IntRange(1, 1000), default=2, show_default=True, help="Likewise, not counted.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the data.")
@click.option("--equal-terms", is_flag=True, help="Run each program also with huge pages from malloc.")
@click.option("--slot-memory", type=SizeType(), help="Of omniccl, in bytes; by default its own default.")
@click.option("--checksum/--no-checksum", default=True, show_default=True, help="Whether omniccl checks its data too.")
@click.option("--json", "json_path", type=OUTPUT, callback=file_to_write, help="Write all figures here.")
@click.option("--report", "page_path", type=OUTPUT, callback=file_to_write, help="Write tables and plots here (HTML).")
def allreduce(
    ranks: Sequence[int],
    sizes: Sequence[int],
    densities: Sequence[float],
    placements: Sequence[str],
    dtypes: Sequence[str],
    block_sizes: Sequence[int],
    aggregators: Sequence[int],
    tensors: Sequence[int],
    transports: Sequence[str],
    program_names: Optional[Sequence[str]],
    rate: Optional[str],
    rounds: int,
    repetitions: int,
    warmups: int,
    seed: int,
    equal_terms: bool,
    slot_memory: Optional[int],
    checksum: bool,
    json_path: Optional[Path],
    page_path: Optional[Path],
) -> int:
    """Time one allreduce beside its peers, all in one run and in turns.

    Every result is checked. A time is from the first rank's begin to the last one's end; its limit is what the links
    and the memory of this machine allow for the same data. The exit status is 1 if a result was wrong or a program
    failed.
    """
    axes = (ranks, sizes, densities, placements, dtypes, block_sizes, aggregators, tensors, transports)
    cases = tuple(dict.fromkeys(_checked(Case(*values)) for values in itertools.product(*axes)))
    programs, missing = _programs(program_names)
    settings = Settings(cases, programs, rate, rounds, repetitions, warmups, seed, equal_terms, slot_memory, checksum)
    _require(settings)
    return _allreduce(settings, missing, json_path, page_path)


def _checked(case: Case) -> Case:
    if case.size % np.dtype(case.dtype).itemsize:
        raise click.UsageError(f"{case.size} bytes are no whole number of {case.dtype}")
    if case.blocks < case.tensors:
        raise click.UsageError(f"{size_text(case.size)} have {case.blocks} blocks, too few for {case.tensors} tensors")
    return case


def _programs(names: Optional[Sequence[str]]) -> tuple[list[Program], dict[str, str]]:
    """Return the programs to run, and why others cannot."""
    wanted = [program for program in PROGRAMS if names is None or program.name in names]
    reasons = {program.name: program.missing() for program in wanted}
    missing = {name: reason for name, reason in reasons.items() if reason}
    if names is not None and missing:
        raise click.ClickException("; ".join(f"{name} cannot run: {reason}" for name, reason in missing.items()))
    return [program for program in wanted if program.name not in missing], missing


def _require(settings: Settings) -> None:
    """Refuse what this machine cannot do."""
    if settings.rate is not None and (reason := reason_against()):
        raise click.ClickException(f"--rate: {reason}")
    needed, available = needed_bytes(settings), available_bytes()
    if needed > available:
        raise click.ClickException(
            f"this takes up to {size_text(needed)} of memory, and {size_text(available)} are available; "
            "ask for fewer ranks or a smaller size"
        )


def _allreduce(
    settings: Settings, missing: dict[str, str], json_path: Optional[Path], page_path: Optional[Path]
) -> int:
    from .kernels import host_rates
    from .link import link_rate
    from .report import allreduce_table, conditions, write_page
    from .results import Results, rows_of

    with ended_in_order(), hosts_for(settings) as hosts:
        click.echo("measuring the network and the memory of this machine", err=True)
        link, host = link_rate(hosts), host_rates()
        measurements = _measure(settings, hosts)
    network = "loopback" if settings.rate is None else f"network namespaces, {settings.rate or 'unlimited'}"
    described = {**settings.to_json(), "network": network}
    results = Results(described, link, host, rows_of(measurements, settings.seed, link, host), missing)
    for name, value in conditions(results):
        click.echo(f"{name}: {value}")
    click.echo(allreduce_table(results))
    if json_path is not None:
        results.write_json(json_path)
    if page_path is not None:
        write_page(results, page_path)
    for failure in results.failures:
        click.echo(failure, err=True)
    return int(bool(results.failures))


def _measure(settings: Settings, hosts: Sequence[Host]) -> list[Measurement]:
    begun = itertools.count(1)
    start = time.monotonic()

    def progress(name: str) -> None:
        click.echo(f"[{next(begun)}/{campaign.jobs}] {time.monotonic() - start:.0f} s: {name}", err=True)

    campaign = Campaign(settings, progress)
    return campaign.run(hosts)
