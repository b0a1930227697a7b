"""examples/numpy_allreduce.py prints what docs/numpy.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BYTES = re.compile(r"[\d,]+(?= bytes sent)")


def results(text: str) -> list[str]:
    """The lines of the ranks, without the bytes sent, in which addresses count too."""
    return sorted(BYTES.sub("some", line) for line in text.splitlines() if line.startswith("rank "))


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    shown = results((ROOT / "docs" / "numpy.md").read_text())
    assert len(shown) == 2
    command = [sys.executable, str(ROOT / "examples" / "numpy_allreduce.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert results(done.stdout) == shown
