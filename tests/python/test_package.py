"""What an installation holds, and what a source distribution needs to make one."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import hvd_omniccl

ROOT = Path(__file__).parents[2]
INSTALLED = Path(hvd_omniccl.__file__).parent


@pytest.mark.parametrize(
    "name",
    [
        "_engine/lib/libomniccl_engine.a",
        "_engine/include/engine/communicator.h",
        "_engine/bin/omniccl-aggregator",
        "_adapter_source/CMakeLists.txt",
        "_native.pyi",
        "py.typed",
    ],
)
def test_the_package_holds_what_adapters_and_type_checkers_need(name: str) -> None:
    assert (INSTALLED / name).is_file()


def test_the_communicator_needs_neither_tensorflow_nor_horovod(tmp_path: Path) -> None:
    program = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "missing = ('tensorflow', 'horovod')\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in missing else find(name, *rest)\n"
        "import numpy as np, hvd_omniccl\n"
        "with hvd_omniccl.Communicator(0, 1, hvd_omniccl.Session.random()) as one:\n"
        "    one.connect([one.endpoint])\n"
        "    print(one.allreduce(np.arange(3)).tolist(), 'tensorflow' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("[0, 1, 2] False\n", 0), done.stderr


def test_a_source_distribution_holds_all_that_a_build_needs(tmp_path: Path) -> None:
    program = f"import setuptools.build_meta as build; build.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=120, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        packed = {name.partition("/")[2] for name in tar.getnames()}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "native").rglob("*") if path.is_file()}
    assert len(sources) > 100
    assert sources | {"setup.py", "pyproject.toml", "hvd_omniccl/_native.pyi", "hvd_omniccl/version.py"} <= packed
