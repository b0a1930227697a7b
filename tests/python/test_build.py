"""What the builds need: pins for Horovod's own, and a range of CMake versions for ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("package", "below"),
    [("cmake", 4), ("setuptools", 70)],  # Horovod 0.28.1 builds with neither from there on
)
def test_requirements_pin_what_horovods_build_needs(package: str, below: int) -> None:
    pin = re.search(rf"^{package}==(\d+)\.", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pin and int(pin[1]) < below
    assert re.search(rf'"{package}>=[\d.]+,<{below}"', (ROOT / "pyproject.toml").read_text())


def pip_cmake(version: str, folder: Path) -> Path:
    """CMake of this version, from pip, in a folder of its own."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        f"cmake=={version}",
    ]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if installed.returncode != 0:
        pytest.skip(f"pip cannot fetch CMake {version}: {installed.stderr.strip()[-200:]}")
    return folder / "cmake" / "data" / "bin" / "cmake"


@pytest.mark.parametrize("version", ["3.18.*", "4.*"])
def test_the_native_build_configures_with_old_and_new_cmake(version: str, tmp_path: Path) -> None:
    cmake = pip_cmake(version, tmp_path / "pip")
    command = [str(cmake), "-S", str(ROOT / "native"), "-B", str(tmp_path / "build"), "-G", "Unix Makefiles"]
    configured = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ)
    output = configured.stdout + configured.stderr
    assert configured.returncode == 0, output
    assert "CMake Warning" not in output
    assert "Deprecat" not in output
