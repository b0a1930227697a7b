"""``omniccl bench``: the command line of the benchmark."""

from __future__ import annotations

import itertools
import json
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Callable, Optional

import click
import numpy as np

from .campaign import Campaign, Measurement, Settings, available_bytes, hosts_for, needed_bytes
from .case import PLACEMENTS, Case
from .network import Host, reason_against
from .programs import PROGRAMS, Program
from .units import ListOf, SizeType, size_from, size_text

_DTYPES = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8")
_MAX_RANKS = 64


def _ranks_from(text: str) -> int:
    ranks = int(text)
    if not 1 <= ranks <= _MAX_RANKS:
        raise ValueError(text)
    return ranks


def _count_from(text: str) -> int:
    count = int(text)
    if not 0 <= count <= _MAX_RANKS:
        raise ValueError(text)
    return count


def _block_from(text: str) -> int:
    size = int(text)
    if not 1 <= size <= 65536:
        raise ValueError(text)
    return size


def _density_from(text: str) -> float:
    percent = float(text.rstrip("% "))
    if not 0.0 <= percent <= 100.0:
        raise ValueError(text)
    return percent / 100.0


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return parse


def _rate(_: click.Context, __: click.Parameter, value: Optional[str]) -> Optional[str]:
    if value is None or value == "unlimited":
        return None if value is None else ""
    if re.fullmatch(r"\d+(\.\d+)?[kmg]?bit", value) is None:
        raise click.BadParameter("a rate is such as 1gbit or 250mbit, or unlimited")
    return value


@click.group()
def bench() -> None:
    """Measure: the allreduce beside its peers, and the inner loops.

    Needs the packages of pip install 'hvd_omniccl[bench]'.
    """
    try:
        import tabulate  # noqa: F401
    except ImportError:
        raise click.ClickException("a package is missing: pip install 'hvd_omniccl[bench]'") from None


@bench.command()
@click.option("--ranks", type=ListOf(_ranks_from, "N", f"1 to {_MAX_RANKS}"), default="2,4", show_default=True)
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
    type=ListOf(_density_from, "PERCENT", "0 to 100"),
    default="100,10,1",
    show_default=True,
    help="Blocks that are not zero.",
)
@click.option(
    "--placement",
    "placements",
    type=ListOf(_one_of(*PLACEMENTS), "WORD", ", ".join(PLACEMENTS)),
    default="random",
    show_default=True,
    help=f"Where those blocks are: {', '.join(PLACEMENTS)} (as in a vocabulary sorted by frequency).",
)
@click.option(
    "--dtype",
    "dtypes",
    type=ListOf(_one_of(*_DTYPES), "NAME", ", ".join(_DTYPES)),
    default="float32",
    show_default=True,
)
@click.option(
    "--block-size",
    "block_sizes",
    type=ListOf(_block_from, "ELEMENTS", "1 to 65536"),
    default="256",
    show_default=True,
    help="Elements of a block.",
)
@click.option(
    "--aggregators",
    type=ListOf(_count_from, "N", f"0 to {_MAX_RANKS}"),
    default="0",
    show_default=True,
    help="Dedicated aggregators; 0: embedded in the ranks.",
)
@click.option(
    "--program",
    "program_names",
    type=ListOf(_one_of(*(program.name for program in PROGRAMS)), "NAME", ", ".join(p.name for p in PROGRAMS)),
    help="What to compare; by default all that are installed.",
)
@click.option(
    "--rate",
    callback=_rate,
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
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
@click.option(
    "--report", "page_path", type=click.Path(dir_okay=False, path_type=Path), help="Write tables and plots here (HTML)."
)
def allreduce(
    ranks: Sequence[int],
    sizes: Sequence[int],
    densities: Sequence[float],
    placements: Sequence[str],
    dtypes: Sequence[str],
    block_sizes: Sequence[int],
    aggregators: Sequence[int],
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
    axes = itertools.product(ranks, sizes, densities, placements, dtypes, block_sizes, aggregators)
    cases = tuple(dict.fromkeys(_case(*values) for values in axes))
    programs, missing = _programs(program_names)
    settings = Settings(cases, programs, rate, rounds, repetitions, warmups, seed, equal_terms, slot_memory, checksum)
    _require(settings)
    for path in (json_path, page_path):
        if path is not None and not path.parent.is_dir():
            raise click.UsageError(f"there is no folder {path.parent}")
    return _allreduce(settings, missing, json_path, page_path)


def _case(ranks: int, size: int, density: float, placement: str, dtype: str, block_size: int, aggregators: int) -> Case:
    if size % np.dtype(dtype).itemsize:
        raise click.UsageError(f"{size} bytes are no whole number of {dtype}")
    return Case(ranks, size, density, placement, dtype, block_size, aggregators)


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

    with _ended_in_order(), hosts_for(settings) as hosts:
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


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Make SIGTERM an exception, so that what was started and made goes with this process."""

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@bench.command()
@click.option(
    "--size", type=SizeType(), default="100M", show_default=True, help="Of each array; larger than the caches."
)
@click.option("--repetitions", type=click.IntRange(1, 10000), default=9, show_default=True)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
def kernels(size: int, repetitions: int, json_path: Optional[Path]) -> None:
    """Time the inner loops of each instruction set beside plain loops over the same memory.

    scan beside a plain read, sum and gather beside a plain copy, fill beside a plain write around the cache.
    """
    from .kernels import kernel_rates
    from .report import kernel_table
    from .results import machine

    size_in_bytes = size // 2048 * 2048
    if size_in_bytes == 0:
        raise click.UsageError("--size is at least 2K")
    rates = list(kernel_rates(size_in_bytes, repetitions))
    click.echo(kernel_table(rates))
    if json_path is not None:
        everything = {"machine": machine(), "size": size_in_bytes, "rates": [rate.to_json() for rate in rates]}
        json_path.write_text(json.dumps(everything, indent=1) + "\n")


def _horovod_is_missing() -> Optional[str]:
    return next(program for program in PROGRAMS if program.name == "horovod-gloo").missing()


def _batch_from(text: str) -> int:
    size = int(text)
    if size < 1:
        raise ValueError(text)
    return size


@bench.command(context_settings={"allow_interspersed_args": False})
@click.option("--ranks", type=click.IntRange(1, _MAX_RANKS), default=4, show_default=True)
@click.option("--rate", callback=_rate, help="As for allreduce; by default all is on loopback.")
@click.option(
    "--batch-size",
    "batch_sizes",
    type=ListOf(_batch_from, "N", "1 or more"),
    default="256",
    show_default=True,
    help="Of each rank.",
)
@click.option("--steps", type=click.IntRange(3), default=100, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs by each way.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
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
    from .launch import LaunchError
    from .network import network_of
    from .report import training_table
    from .results import machine
    from .train import train as run_all

    if rate is not None and (reason := reason_against()):
        raise click.ClickException(f"--rate: {reason}")
    if reason := _horovod_is_missing():
        raise click.ClickException(reason)
    if json_path is not None and not json_path.parent.is_dir():
        raise click.UsageError(f"there is no folder {json_path.parent}")
    network: AbstractContextManager[list[Host]]
    network = nullcontext([]) if rate is None else network_of(max(2, ranks), rate or None)
    try:
        with _ended_in_order(), network as hosts:
            tell = partial(click.echo, err=True)
            trainings = list(run_all([script], batch_sizes, ranks, steps, rounds, hosts, arguments, tell))
    except LaunchError as error:
        raise click.ClickException(str(error)) from error
    click.echo(training_table(trainings))
    if json_path is not None:
        everything = {"machine": machine(), "ranks": ranks, "rate": rate, "trainings": [t.to_json() for t in trainings]}
        json_path.write_text(json.dumps(everything, indent=1) + "\n")
