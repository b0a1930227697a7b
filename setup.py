"""Drives CMake; what can be said as data is in pyproject.toml.

The engine is built into the package: as an archive with its headers, as the NumPy module and as the
daemon. The adapter to Horovod is built too where Horovod is installed; elsewhere the first import
with Horovod builds it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pybind11
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
NATIVE = ROOT / "native"

# What `omniccl adapter` does, without the command line's package: pip installs what ours depends on
# only after this has run. (TensorFlow brings what the hook needs.)
BUILD_ADAPTER = "from hvd_omniccl import hook; hook.state_with_horovod()"


def run(command: list[str], **options: object) -> None:
    print("$", " ".join(command), flush=True)
    status = subprocess.run(command, check=False, **options).returncode  # type: ignore[call-overload]
    if status != 0:
        sys.exit(f"hvd_omniccl: '{command[0]}' failed; its message is above")


def require_tools() -> None:
    for tool, line in (("cmake", "pip install 'cmake<4'"), ("c++", "apt-get install build-essential")):
        if shutil.which(tool) is None:
            sys.exit(f"hvd_omniccl: {tool} is missing and is needed to build. Type: {line}")


class BuildNative(build_ext):
    """Builds the engine, and the adapter where Horovod is installed, into the package's folder."""

    def run(self) -> None:
        require_tools()
        package = Path(self.get_ext_fullpath("hvd_omniccl._engine")).resolve().parent
        self.build_engine(package / "_engine")
        self.copy_adapter_source(package / "_adapter_source")
        shutil.rmtree(package / "_adapter", ignore_errors=True)
        missing = [name for name in ("tensorflow", "horovod") if importlib.util.find_spec(name) is None]
        if missing:
            print(f"hvd_omniccl: no {missing[0]} here; the first import with Horovod builds the adapter")
        else:
            self.build_adapter(package)

    def build_engine(self, destination: Path) -> None:
        work = Path(self.build_temp).resolve() / "engine"
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DOMNICCL_BUILD_TESTS=OFF", "-DOMNICCL_BUILD_BINDINGS=ON"]
        options += [f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
        run(["cmake", "-S", str(NATIVE), "-B", str(work), *generator, *options])
        run(["cmake", "--build", str(work), "--parallel", str(os.cpu_count() or 1)])
        shutil.rmtree(destination, ignore_errors=True)
        run(["cmake", "--install", str(work), "--prefix", str(destination)])
        for module in destination.glob("_native*.so"):
            module.replace(destination.parent / module.name)

    def copy_adapter_source(self, destination: Path) -> None:
        shutil.rmtree(destination, ignore_errors=True)
        shutil.copytree(NATIVE / "horovod_op", destination)

    def build_adapter(self, package: Path) -> None:
        """Imports the package as it will be installed, with Horovod, which builds what it lacks."""
        cache = package / "_adapter"
        environment = {**os.environ, "OMNICCL_CACHE_DIR": str(cache), "PYTHONPATH": str(package.parent)}
        run([sys.executable, "-c", BUILD_ADAPTER], env=environment, cwd=package.parent)
        for lock in cache.glob("*.lock"):
            lock.unlink()

    # There is no file of the extension's name for setuptools to copy or to list.
    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def copy_extensions_to_source(self) -> None:
        """Nothing to copy: with --inplace the package's folder is the source."""


setup(
    ext_modules=[Extension("hvd_omniccl._engine", sources=[])],
    cmdclass={"build_ext": BuildNative},
)
