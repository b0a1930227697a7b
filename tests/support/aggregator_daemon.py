"""An omniccl-aggregator as a process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvd_omniccl.paths import AGGREGATOR

DEADLINE_SECONDS = 60


def make_secret(folder: Path) -> Path:
    secret_file = folder / "secret"
    secret_file.touch(mode=0o600)
    secret_file.write_text("correct horse battery staple\n")
    return secret_file


@dataclass(frozen=True)
class Daemon:
    process: subprocess.Popen[str]
    place: str
    secret_file: Path

    @property
    def log(self) -> str:
        return (self.secret_file.parent / "log").read_text()

    @property
    def peak_memory(self) -> int:
        """The most that was resident at a time, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) << 10

    def environment(self, shards: int) -> dict[str, str]:
        """Variables for jobs that use so many shards of this daemon."""
        return {"OMNICCL_AGGREGATORS": ",".join([self.place] * shards), "OMNICCL_SECRET_FILE": str(self.secret_file)}

    def shards(self, count: int) -> dict[str, Any]:
        """Options for communicators that use so many shards of this daemon."""
        return {"aggregators": [self.place] * count, "secret_file": self.secret_file}


@contextmanager
def daemon(folder: Path, *options: str, listen: str = "127.0.0.1:0") -> Iterator[Daemon]:
    """A daemon on a free port, ended by SIGTERM, which has to end it well."""
    secret_file = make_secret(folder)
    command = [str(AGGREGATOR), "--listen", listen, "--secret-file", str(secret_file), *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), (folder / "log").read_text()
        yield Daemon(process, line.split()[-1], secret_file)
        if process.poll() is None:
            process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()
