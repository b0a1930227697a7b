"""How much memory a reduction takes."""

from __future__ import annotations

import json
from pathlib import Path

from launch import HERE, horovodrun, run_job

DEADLINE_SECONDS = 150
RANKS = 2
TIED_TABLE_BYTES = 4 * 50_000 * 64
SLOT_MEMORY_BYTES = RANKS * (512 << 10)  # the default
# Staging and heads of frames of each connection, the list of chunks, and pages that malloc keeps.
OTHER_BYTES = 2 << 20


def peaks(mode: str, folder: Path) -> dict[str, int]:
    report = folder / f"{mode}.json"
    job = run_job(horovodrun(RANKS, HERE / "peak_memory.py", mode, str(report)), DEADLINE_SECONDS)
    assert job.status == 0, job.output
    figures: dict[str, int] = json.loads(report.read_text())
    return figures


def test_a_reduction_takes_what_stock_takes_and_the_slot_memory(tmp_path: Path) -> None:
    stock, ours = peaks("stock", tmp_path), peaks("omniccl", tmp_path)
    tied_table = ours.pop("tied table")
    # The variable, three tables that TensorFlow makes on the way to the gradient, and the result.
    assert tied_table <= 5 * TIED_TABLE_BYTES + SLOT_MEMORY_BYTES + OTHER_BYTES, (ours, stock)
    for name, peak in ours.items():
        assert stock[name] >= int(name.split()[0]) << 20, stock  # it sees at least the result
        assert peak <= stock[name] + SLOT_MEMORY_BYTES + OTHER_BYTES, (name, ours, stock)
