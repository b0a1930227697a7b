"""``omniccl bench kernels``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

import click

from .options import OUTPUT, SizeType, file_to_write


@click.command()
@click.option(
    "--size", type=SizeType(), default="100M", show_default=True, help="Of each array; larger than the caches."
)
@click.option("--repetitions", type=click.IntRange(1, 10000), default=9, show_default=True)
@click.option("--json", "json_path", type=OUTPUT, callback=file_to_write, help="Write all figures here.")
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
