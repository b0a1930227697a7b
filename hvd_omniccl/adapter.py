"""The adapter to the installed Horovod: built where it is missing, found where it is there, loaded.

Horovod's wheel has no headers, so the adapter is compiled against the sources of exactly the
installed version, with the same macros. :func:`load` is the one function that does it, whoever
calls it: ``pip install`` (setup.py) where Horovod is there, else the first import of Horovod.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .config import Config
from .errors import AdapterError
from .local_build import horovod_source, locked, require_compiler, run, tool
from .version import __version__

_PACKAGE = Path(__file__).parent
_ENGINE = _PACKAGE / "_engine"
_SHIPPED_SOURCE = _PACKAGE / "_adapter_source"
_TREE_SOURCE = _PACKAGE.parent / "native" / "horovod_op"  # in a source checkout
_INSTALLED_ADAPTERS = _PACKAGE / "_adapter"

_EXTENSION = "_horovod_adapter" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


@dataclass(frozen=True)
class HorovodBuild:
    """What the adapter is compiled for; all of it is part of the cache key.

    Attributes
    ----------
    version, tensorflow_version
        Of the installed packages.
    features
        The ``HAVE_*`` macros of Horovod's build that change its structures, without ``HAVE_``.
    tensorflow_include
        TensorFlow's headers.
    cxx11_abi
        The C++ library ABI that TensorFlow, and so Horovod, was built with.
    mpi_compile_flags
        What ``mpicxx`` adds to a compile line; empty without MPI.
    """

    version: str
    tensorflow_version: str
    features: tuple[str, ...]
    tensorflow_include: str
    cxx11_abi: int
    mpi_compile_flags: str


def load(config: Config) -> Any:
    """Return the adapter for the installed Horovod as a module, building it if need be.

    Raises
    ------
    AdapterError
        When it cannot be built or does not fit; the message says what to do.
    """
    build = inspect_horovod()
    try:
        path = _find_or_build(build, config)
    except (OSError, subprocess.SubprocessError) as error:  # a full disk, a step that hangs
        raise AdapterError(f"the adapter cannot be built: {error}") from error
    module = _import_extension(path)
    _check_built_for(module, build)
    return module


def horovod_library() -> Path:
    """Return the path of Horovod's native library for TensorFlow."""
    from horovod.common.util import get_ext_suffix
    from horovod.tensorflow import mpi_ops

    return Path(mpi_ops.__file__).parent / f"mpi_lib{get_ext_suffix()}"


def inspect_horovod() -> HorovodBuild:
    """Return what the installed Horovod is.

    Raises
    ------
    AdapterError
        When there is none for TensorFlow, or it is of a kind that is not supported.
    """
    try:
        import horovod
        import horovod.tensorflow as hvd
        import tensorflow as tf
    except ImportError as error:
        raise no_horovod(error) from error
    _refuse_unsupported(hvd)
    features = [name for name in ("CCL", "GLOO", "MPI") if getattr(hvd, f"{name.lower()}_built")()]
    return HorovodBuild(
        version=horovod.__version__,
        tensorflow_version=tf.__version__,
        features=tuple(features),
        tensorflow_include=tf.sysconfig.get_include(),
        cxx11_abi=_cxx11_abi(tf.sysconfig.get_compile_flags()),
        mpi_compile_flags=_mpi_compile_flags() if "MPI" in features else "",
    )


def no_horovod(error: ImportError) -> AdapterError:
    """Return the error for a Horovod that cannot be imported, with what to type."""
    return AdapterError(
        f"Horovod for TensorFlow cannot be imported ({error}). Type: "
        "HOROVOD_WITH_TENSORFLOW=1 pip install --no-build-isolation horovod==0.28.1"
    )


def _refuse_unsupported(hvd: Any) -> None:
    for name in ("cuda", "rocm", "nccl", "ddl"):
        if getattr(hvd, f"{name}_built")():
            raise AdapterError(
                f"Horovod was built with {name.upper()}; hvd_omniccl supports CPU builds only. "
                "Rebuild Horovod without HOROVOD_GPU_OPERATIONS and HOROVOD_GPU"
            )
    # There is no hvd.nvtx_built(); its symbols tell.
    if hasattr(ctypes.CDLL(str(horovod_library())), "_ZN7horovod6common11NvtxOpRange15nvtx_ops_handleE"):
        raise AdapterError(
            "Horovod was built with NVTX, which is not supported. Rebuild it with HOROVOD_WITHOUT_NVTX=1"
        )


def _cxx11_abi(flags: Sequence[str]) -> int:
    for flag in flags:
        if flag.startswith("-D_GLIBCXX_USE_CXX11_ABI="):
            return int(flag.rpartition("=")[2])
    return 1


def _mpi_compile_flags() -> str:
    compiler = tool("mpicxx", "apt-get install libopenmpi-dev openmpi-bin")
    for option in ("--showme:compile", "-compile_info"):  # Open MPI, MPICH
        answer = subprocess.run([compiler, option], capture_output=True, text=True, check=False, timeout=60)
        if answer.returncode == 0:
            return " ".join(word for word in answer.stdout.split() if word.startswith(("-I", "-D", "-pthread")))
    raise AdapterError(f"{compiler} does not say its compile flags: {answer.stderr.strip()}")


def cache_key(build: HorovodBuild, source: Path, engine_library: Path) -> str:
    """Return the name under which the adapter for ``build`` is kept.

    It changes with everything that changes the binary.

    Parameters
    ----------
    build
        What it is for.
    source
        The folder with the adapter's sources.
    engine_library
        The engine that is linked into it.
    """
    digest = hashlib.sha256()
    digest.update(json.dumps([__version__, _EXTENSION, asdict(build)], sort_keys=True).encode())
    files = sorted(path for path in source.iterdir() if path.is_file())
    for path in (*files, engine_library):
        digest.update(path.name.encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"horovod-{build.version}-tf-{build.tensorflow_version}-{digest.hexdigest()[:16]}"


def _find_or_build(build: HorovodBuild, config: Config) -> Path:
    source = _adapter_source()
    engine_library = _ENGINE / "lib" / "libomniccl_engine.a"
    if not engine_library.is_file():
        raise AdapterError(
            f"{engine_library} is missing: the package was not installed. "
            "Type: pip install --no-build-isolation hvd_omniccl"
        )
    key = cache_key(build, source, engine_library)
    for folder in (_INSTALLED_ADAPTERS, config.cache_dir):
        found = folder / key / _EXTENSION
        if found.is_file():
            return found
    built = config.cache_dir / key / _EXTENSION
    with locked(config.cache_dir, key):
        if not built.is_file():  # another process may have built it while we waited
            _build(build, config, source, built.parent)
    return built


def _adapter_source() -> Path:
    for folder in (_TREE_SOURCE, _SHIPPED_SOURCE):
        if (folder / "CMakeLists.txt").is_file():
            return folder
    raise AdapterError(f"the adapter's sources are missing from {_SHIPPED_SOURCE}")


def _build(build: HorovodBuild, config: Config, source: Path, destination: Path) -> None:
    """Build into ``destination``, which appears only when it is complete."""
    cmake = tool("cmake", "pip install cmake")
    require_compiler()
    print(
        f"hvd_omniccl: building the adapter for Horovod {build.version} (once, about a minute)",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory(prefix=".build-", dir=destination.parent) as scratch:
        work = Path(scratch)
        definitions = _cmake_definitions(build, horovod_source(build.version, config, work))
        run([cmake, "-S", str(source), "-B", str(work / "cmake"), *definitions])
        run([cmake, "--build", str(work / "cmake"), "--parallel", str(os.cpu_count() or 1)])
        complete = work / "complete"
        complete.mkdir()
        shutil.copy2(work / "cmake" / _EXTENSION, complete / _EXTENSION)
        complete.rename(destination)


def _cmake_definitions(build: HorovodBuild, source: Path) -> list[str]:
    try:
        import pybind11
    except ImportError as error:
        raise AdapterError("pybind11 is missing. Type: pip install pybind11") from error
    values = {
        "OMNICCL_ENGINE_DIR": str(_ENGINE),
        "OMNICCL_HOROVOD_SOURCE": str(source),
        "OMNICCL_HOROVOD_LIBRARY": str(horovod_library()),
        "OMNICCL_HOROVOD_VERSION": build.version,
        "OMNICCL_HOROVOD_FEATURES": ";".join(build.features),
        "OMNICCL_TENSORFLOW_INCLUDE": build.tensorflow_include,
        "OMNICCL_CXX11_ABI": str(build.cxx11_abi),
        "OMNICCL_MPI_COMPILE_FLAGS": build.mpi_compile_flags,
        "Python_EXECUTABLE": sys.executable,
        "pybind11_DIR": pybind11.get_cmake_dir(),
        "CMAKE_BUILD_TYPE": "Release",
    }
    return [f"-D{name}={value}" for name, value in values.items()]


def _import_extension(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"{__package__}._horovod_adapter", path)
    assert spec is not None and spec.loader is not None  # a suffix that Python knows
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise AdapterError(f"{path} cannot be loaded ({error}). Type: apt-get install libsodium23 libisal2") from error
    return module


def _check_built_for(module: Any, build: HorovodBuild) -> None:
    """Compare what the headers were compiled with and what the library says of itself."""
    info = module.build_info()
    compiled = tuple(sorted(name.upper() for name, built in info["features"].items() if built))
    if compiled == build.features and info["horovod_version"] == build.version:
        return
    raise AdapterError(
        f"the adapter was built for Horovod {info['horovod_version']} with {compiled}, installed is "
        f"{build.version} with {build.features}. Remove it and type: python -m hvd_omniccl adapter"
    )
