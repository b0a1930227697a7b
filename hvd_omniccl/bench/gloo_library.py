"""Gloo, built once from the source of the installed Horovod, and kept beside the adapter."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ..config import Config
from ..local_build import horovod_source, locked, require_compiler, run, tool

_SOURCE = Path(__file__).parent / "gloo"
_NAME = "libomniccl_bench_gloo.so"


def gloo_library() -> Path:
    """Return the path of the library, building it if need be.

    Raises
    ------
    AdapterError
        When it cannot be built; the message says what to do.
    """
    config = Config.from_env()
    version = importlib.metadata.version("horovod")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCE.iterdir()) if path.is_file()))
    key = f"gloo-of-horovod-{version}-{digest.hexdigest()[:16]}"
    library = config.cache_dir / key / _NAME
    with locked(config.cache_dir, key):
        if not library.is_file():
            _build(version, config, library)
    return library


def _build(version: str, config: Config, library: Path) -> None:
    """Build it; its folder appears only when it is complete."""
    cmake = tool("cmake", "pip install cmake")
    require_compiler()
    print(f"hvd_omniccl: building Gloo of Horovod {version} (once, about a minute)", file=sys.stderr)
    folder = library.parent
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as scratch:
        work = Path(scratch)
        source = horovod_source(version, config, work)
        options = [f"-DHOROVOD_SOURCE={source}", "-DCMAKE_BUILD_TYPE=Release"]
        run([cmake, "-S", str(_SOURCE), "-B", str(work / "cmake"), *options])
        run([cmake, "--build", str(work / "cmake"), "--parallel", str(os.cpu_count() or 1)])
        complete = work / "complete"
        complete.mkdir()
        shutil.copy2(work / "cmake" / _NAME, complete / _NAME)
        complete.rename(folder)
