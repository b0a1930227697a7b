"""What is compiled on the user's machine: tools, the source of Horovod, and the cache that the results are kept in."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .config import Config
from .errors import AdapterError

_LOG_LINES_SHOWN = 30
_BUILD_TIMEOUT_SECONDS = 1200


def tool(name: str, install_line: str) -> str:
    """Return the path of a program: beside the interpreter, else on ``PATH``."""
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    path = shutil.which(name, path=search)
    if path is None:
        raise AdapterError(f"{name} is missing and is needed to build. Type: {install_line}")
    return path


def require_compiler() -> None:
    """Raise AdapterError where there is no C++ compiler."""
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++")):
        raise AdapterError("a C++ compiler is missing. Type: apt-get install g++")


@contextmanager
def locked(folder: Path, key: str) -> Iterator[None]:
    """Hold the lock of one cache entry; the kernel lets go of it when the process dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AdapterError(
            f"cannot write to {folder} ({error}). Set OMNICCL_CACHE_DIR to a folder that can be written"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def horovod_source(version: str, config: Config, work: Path) -> Path:
    """Return the unpacked source of Horovod ``version``."""
    given = config.horovod_source
    if given is None:
        given = _download_horovod(version, work)
    if not given.exists():
        raise AdapterError(f"OMNICCL_HOROVOD_SOURCE is {given}, which does not exist")
    folder = given if given.is_dir() else _unpack(given, work)
    init = folder / "horovod" / "__init__.py"
    match = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", init.read_text()) if init.is_file() else None
    if match is None:
        raise AdapterError(f"{given} is not a source distribution of Horovod")
    if match[1] != version:
        raise AdapterError(f"{given} is Horovod {match[1]}, installed is {version}")
    return folder


def _download_horovod(version: str, work: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(work)]
    try:
        run([*command, f"horovod=={version}"])
    except AdapterError as error:
        raise AdapterError(
            f"Horovod's source cannot be downloaded. On a host that can, type: "
            f"pip download --no-deps --no-binary :all: --no-build-isolation horovod=={version} "
            f"and set OMNICCL_HOROVOD_SOURCE to the file\n{error}"
        ) from error
    return next(work.glob("horovod-*.tar.gz"))


def _unpack(archive: Path, work: Path) -> Path:
    target = work / "horovod-source"
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(target, filter="data")
        else:  # Python before 3.9.17, 3.10.12 and 3.11.4
            tar.extractall(target)
    folders = [path for path in target.iterdir() if path.is_dir()]
    if len(folders) != 1:
        raise AdapterError(f"{archive} is not a source distribution")
    return folders[0]


def run(command: Sequence[str]) -> None:
    """Run a build step. Raises AdapterError with our own message in its output, else its end."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_BUILD_TIMEOUT_SECONDS,
    )
    if done.returncode == 0:
        return
    ours = re.search(r"omniccl: (.+)", done.stdout)
    if ours is not None:
        raise AdapterError(ours[1])
    end = "\n".join(done.stdout.splitlines()[-_LOG_LINES_SHOWN:])
    raise AdapterError(f"{' '.join(command[:3])} … failed:\n{end}")
