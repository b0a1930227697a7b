"""Files of the installed package."""

from __future__ import annotations

from pathlib import Path

# The daemon.
AGGREGATOR = Path(__file__).parent / "_engine" / "bin" / "omniccl-aggregator"
