"""Tables for the terminal, and one HTML page with the tables and the plots."""

from __future__ import annotations

import html
import io
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tabulate import tabulate

from .case import Case
from .kernels import KernelRate
from .results import Results, Row, machine
from .train import Training
from .units import percent_text, seconds_text, size_text

_HEADERS = (
    "case",
    "program",
    "median",
    "min",
    "max",
    "core-s",
    "limit",
    "by",
    "efficiency",
    "x engine",
    "x plug-in",
)

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.4 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }}
table {{ border-collapse: collapse; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .2em .7em; text-align: right; }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
svg {{ max-width: 100%; height: auto; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def case_text(case: Case, density: bool = True) -> str:
    """Return what distinguishes a case, in one line, with or without its density."""
    parts = [f"{case.ranks} ranks", size_text(case.size), *([percent_text(case.density)] if density else [])]
    default = Case(case.ranks, case.size, case.density)
    if case.placement != default.placement:
        parts.append(case.placement)
    if case.dtype != default.dtype:
        parts.append(case.dtype)
    if case.block_size != default.block_size:
        parts.append(f"blocks of {case.block_size}")
    if case.aggregators:
        parts.append(f"{case.aggregators} aggregators")
    if case.tensors != default.tensors:
        parts.append(f"{case.tensors} tensors")
    if case.transport != default.transport:
        parts.append(case.transport)
    return ", ".join(parts)


def _cells(row: Row) -> list[str]:
    one = row.measurement
    limit = [seconds_text(row.limit), row.bound]
    if not one.seconds:
        return [case_text(one.case), one.mode, "failed", "", "", "", *limit, "", "", ""]
    return [
        case_text(one.case),
        one.mode + (" WRONG" if one.wrong else "") + (" (failed later)" if one.failure else ""),
        seconds_text(one.median),
        seconds_text(min(one.seconds)),
        seconds_text(max(one.seconds)),
        f"{sorted(one.core_seconds)[len(one.core_seconds) // 2]:.3f}",
        *limit,
        f"{row.efficiency:.3f}",
        f"{row.engine:.2f}" if row.engine else "",
        f"{row.plug_in:.2f}" if row.plug_in else "",
    ]


def allreduce_table(results: Results, form: str = "simple") -> str:
    """Return the rows as a table in one of tabulate's forms."""
    cells = [_cells(row) for row in results.rows]
    return str(tabulate(cells, headers=_HEADERS, tablefmt=form, disable_numparse=True, colalign=("left", "left")))


def kernel_table(rates: Sequence[KernelRate], form: str = "simple") -> str:
    """Return the rates of loops as a table in one of tabulate's forms."""
    cells = [
        [
            rate.operation,
            rate.kernels,
            f"{rate.rate / 1e9:.2f} GB/s",
            "" if rate.kernels == "plain" else f"{rate.share:.2f}",
        ]
        for rate in rates
    ]
    headers = ("operation", "kernels", "median", "of plain")
    return str(tabulate(cells, headers=headers, tablefmt=form, disable_numparse=True))


def training_table(trainings: Sequence[Training], form: str = "simple") -> str:
    """Return what trainings took as a table in one of tabulate's forms."""
    dense = {(one.script, one.batch_size): one for one in trainings if one.way == "dense"}
    cells = []
    for one in trainings:
        base = dense[one.script, one.batch_size]
        cells.append(
            [
                f"{one.script}, batches of {one.batch_size}",
                one.way,
                f"{one.steps_per_second:.2f}",
                f"{one.steps_per_second / base.steps_per_second:.2f}",
                f"{statistics.median(one.bytes_per_step):,.0f}",
                f"{statistics.median(one.losses):.4f}",
            ]
        )
    headers = ("training", "allreduce", "steps/s", "x dense", "bytes a step", "loss")
    return str(tabulate(cells, headers=headers, tablefmt=form, disable_numparse=True))


def conditions(results: Results) -> list[tuple[str, str]]:
    """Return what the results depend on, as names and values."""
    host, here = results.host, machine()
    return [
        ("machine", f"{here['processor']}, {here['cores']} cores, {size_text(here['memory'])}, Linux {here['kernel']}"),
        ("network", str(results.settings["network"])),
        ("plain TCP stream, each way", f"{results.link_rate * 8 / 1e6:.0f} Mbit/s"),
        (
            "scan, fill, copy of one core",
            " / ".join(f"{r / 1e9:.1f}" for r in (host.scan, host.fill, host.copy)) + " GB/s",
        ),
        ("repetitions", f"{results.settings['rounds']} rounds of {results.settings['repetitions']}"),
        *((f"without {name}", reason) for name, reason in results.missing.items()),
    ]


def write_page(results: Results, path: Path) -> None:
    """Write the tables and the plots as one HTML file, as a whole or not at all. Needs matplotlib."""
    listed = tabulate(conditions(results), tablefmt="html")
    plots = [_plot(rows) for rows in _series(results.rows).values()]
    body = "\n".join([listed, *plots, f"<h2>All figures</h2>{allreduce_table(results, 'html')}"])
    hidden = path.with_name(f".{path.name}.part")
    hidden.write_text(_PAGE.format(title=html.escape("omniccl bench allreduce"), body=body))
    hidden.replace(path)


def _series(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    """Return the rows that differ in nothing but density and program."""
    series: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        case = row.measurement.case
        if row.measurement.seconds:
            series[replace(case, density=1.0)].append(row)
    return series


def _plot(rows: Sequence[Row]) -> str:
    """Return time over density, a line for each program, as SVG."""
    from matplotlib.figure import Figure  # imported late: it takes a second

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    limits: dict[float, float] = {}
    for row in rows:
        density = row.measurement.case.density * 100
        lines[row.measurement.mode].append((density, row.measurement.median))
        limits[density] = row.limit
    for mode, points in lines.items():
        axes.plot(*zip(*sorted(points)), marker="o", label=mode)
    axes.plot(*zip(*sorted(limits.items())), "k--", label="limit")
    axes.set(xscale="symlog", yscale="log", xlabel="blocks that are not zero, %", ylabel="seconds")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.grid(True, alpha=0.3)
    axes.legend()
    sink = io.StringIO()
    figure.savefig(sink, format="svg")
    heading = case_text(rows[0].measurement.case, density=False)
    svg = sink.getvalue()
    return f"<h2>{html.escape(heading)}</h2>{svg[svg.index('<svg') :]}"
