"""How much memory a reduction takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import HERE, horovodrun, run_job

DEADLINE_SECONDS = 150
TIED_TABLE_BYTES = 4 * 50_000 * 64
SLOT_MEMORY_BYTES_PER_RANK = 512 << 10  # the default
# Staging and heads of frames of each connection, the list of chunks, and pages that malloc keeps.
OTHER_BYTES = 2 << 20


def peaks(ranks: int, mode: str, folder: Path) -> dict[str, int]:
    report = folder / f"{mode}.json"
    job = run_job(horovodrun(ranks, HERE / "peak_memory.py", mode, str(report)), DEADLINE_SECONDS)
    assert job.status == 0, job.output
    figures: dict[str, int] = json.loads(report.read_text())
    return figures


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_reduction_takes_what_stock_takes_and_the_slot_memory(ranks: int, tmp_path: Path) -> None:
    stock, ours = peaks(ranks, "stock", tmp_path), peaks(ranks, "omniccl", tmp_path)
    # Three tables that TensorFlow makes on the way to the gradient, and the result: not one for each rank.
    assert ours.pop("tied table") <= 4 * TIED_TABLE_BYTES, (ours, stock)
    for name, peak in ours.items():
        assert stock[name] >= int(name.split()[0]) << 20, stock  # it sees at least the result
        assert peak <= stock[name] + ranks * SLOT_MEMORY_BYTES_PER_RANK + OTHER_BYTES, (name, ours, stock)
