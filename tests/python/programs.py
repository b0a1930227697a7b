"""Small programs in an interpreter of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

BIN = Path(sys.executable).parent


def run(
    command: Sequence[str], folder: Path, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command in `folder`, where the package's source folder is not found before the package."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMNICCL_", "HOROVOD_"))}
    environment.update(TF_CPP_MIN_LOG_LEVEL="2", PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    environment.update(extra or {})
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=200, check=False, env=environment
    )


def python(program: str, folder: Path, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-c", program], folder, extra)
