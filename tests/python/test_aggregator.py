"""The daemon as a program: its options, its end, its memory."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aggregator_daemon import AGGREGATOR, daemon, make_secret
from programs import BIN, run
from ranks import Ranks

from hvd_omniccl import __version__

OMNICCL = str(BIN / "omniccl")
DEADLINE_SECONDS = 30


def test_help_and_version(tmp_path: Path) -> None:
    for command in ([str(AGGREGATOR)], [OMNICCL, "aggregator"]):
        assert run([*command, "--version"], tmp_path).stdout == f"omniccl-aggregator {__version__}\n"
        usage = run([*command, "--help"], tmp_path)
        assert usage.returncode == 0
        for option in ("--listen", "--secret-file", "--threads", "--slot-memory", "--one-shot", "scalar"):
            assert option in usage.stdout


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 2, "--secret-file"),
        (["--secret-file", "secret", "--threads", "many"], 2, "--threads"),
        (["--secret-file", "secret", "--slot-memory", "1"], 2, "--slot-memory"),
        (["--secret-file", "secret", "--nonesuch"], 2, "--nonesuch"),
        (["--secret-file", "secret", "--kernels", "avx9"], 1, "avx9"),
        (["--secret-file", "secret", "--listen", "here"], 1, "HOST:PORT"),
        (["--secret-file", "secret", "--listen", "no-such-host.invalid:0"], 1, "no-such-host.invalid"),
        (["--secret-file", "secret", "--listen", "192.0.2.1:0"], 1, "192.0.2.1"),
        (["--secret-file", "missing"], 1, "missing"),
        (["--secret-file", "readable"], 1, "chmod 600"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    options: list[str], status: int, message: str, tmp_path: Path
) -> None:
    make_secret(tmp_path)
    (tmp_path / "readable").write_text("0123456789abcdef")
    (tmp_path / "readable").chmod(0o644)
    done = run([str(AGGREGATOR), *options], tmp_path)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert done.stdout == ""
    assert "correct horse" not in done.stderr


def test_a_second_one_on_the_same_port_says_so_and_a_killed_ones_port_is_free(tmp_path: Path) -> None:
    with daemon(tmp_path) as first:
        command = [str(AGGREGATOR), "--listen", first.place, "--secret-file", str(first.secret_file)]
        second = run(command, tmp_path)
        assert second.returncode == 1
        assert first.place in second.stderr
        with Ranks(2, **first.shards(1)) as ranks:  # connections that die with it
            ranks.run(lambda one: one.allreduce(np.ones(3)))
            first.process.kill()
            first.process.wait()
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as third:
                assert third.stdout is not None
                assert third.stdout.readline() == f"listening on {first.place}\n"
                third.terminate()
            assert third.returncode == 0
        first.process.returncode = 0  # its end was ours


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_and_tell_the_ranks(number: int, tmp_path: Path) -> None:
    with daemon(tmp_path) as one, Ranks(2, **one.shards(2)) as ranks:
        ranks.run(lambda rank: rank.allreduce(np.ones(3)))
        begin = time.monotonic()
        one.process.send_signal(number)
        assert one.process.wait(DEADLINE_SECONDS) == 0
        assert time.monotonic() - begin < 10
        errors = ranks.errors(lambda rank: rank.allreduce(np.ones(3)))
        assert all("aggregator" in str(error) for error in errors), errors


def test_one_shot_ends_with_its_job(tmp_path: Path) -> None:
    with daemon(tmp_path, "--one-shot") as one:
        with Ranks(2, **one.shards(1)) as ranks:
            ranks.run(lambda rank: rank.allreduce(np.ones(3)))
        assert one.process.wait(DEADLINE_SECONDS) == 0


def test_memory_is_bounded_by_the_slot_memory_whatever_the_tensors(tmp_path: Path) -> None:
    slot_memory = 8 << 20

    def reduce(rank: Any, megabytes: int, step: int) -> None:
        array = np.zeros(megabytes << 18, np.float32)
        array.reshape(-1, 256)[::step, 5] = 1.0
        rank.allreduce(array, array)

    with daemon(tmp_path, "--slot-memory", str(slot_memory), "--threads", "2") as one:
        before = one.peak_memory
        with Ranks(2, slot_memory=slot_memory // 2, **one.shards(2)) as ranks:
            for megabytes, step in ((4, 1), (4, 2), (128, 1), (128, 2)):
                ranks.run(lambda rank, size=megabytes, step=step: reduce(rank, size, step))
        assert one.peak_memory - before < 2 * slot_memory + (4 << 20)
