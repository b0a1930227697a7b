"""The NumPy communicator: what it takes, what it refuses, and how it fails."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ranks import Ranks

from hvd_omniccl import (
    Communicator,
    CommunicatorError,
    ForkedProcessError,
    InvalidArgumentError,
    PeerFailureError,
    Session,
    SettingError,
    UnsupportedDtypeError,
    _native,
)


@pytest.fixture
def alone() -> Any:
    """A group of one, for what does not need another."""
    with Ranks(1) as ranks:
        yield ranks.communicators[0]


def test_arrays_are_reduced_over_all_ranks() -> None:
    with Ranks(3) as ranks:
        sums = ranks.run(lambda one: one.allreduce(np.full((5, 40), one.rank + 1, np.float32)))
        averages = ranks.run(lambda one: one.allreduce(np.array([one.rank + 1.0, 4.0]), op="average"))
        scaled = ranks.run(lambda one: one.allreduce(np.ones(3, np.float32), prescale_factor=0.5, postscale_factor=4.0))
    for one in sums:
        assert one.shape == (5, 40)
        assert one.dtype == np.float32
        assert (one == 6).all()
    assert [one.tolist() for one in averages] == [[2.0, 4.0]] * 3
    assert [one.tolist() for one in scaled] == [[6.0] * 3] * 3


def test_integer_averages_truncate_toward_zero() -> None:
    with Ranks(2) as ranks:
        results = ranks.run(lambda one: one.allreduce(np.array([1 + one.rank, -1 - one.rank], np.int32), op="average"))
    assert [one.tolist() for one in results] == [[1, -1]] * 2


def test_a_list_keeps_its_shapes() -> None:
    shapes: list[tuple[int, ...]] = [(), (0,), (3, 0, 2), (1,), (7, 33), (2, 3, 4)]
    with Ranks(2) as ranks:
        results = ranks.run(lambda one: one.allreduce([np.ones(shape, np.float64) for shape in shapes]))
        assert ranks.run(lambda one: one.allreduce([])) == [[], []]
    for result in results:
        assert [one.shape for one in result] == shapes
        assert all((one == 2).all() for one in result)


def test_arrays_are_used_in_place() -> None:
    with Ranks(2) as ranks:
        arrays = [np.full(1000, rank + 1, np.float32) for rank in range(2)]
        outs = [np.empty(1000, np.float32) for _ in range(2)]
        assert ranks.run(lambda one: one.allreduce(arrays[one.rank], outs[one.rank]) is outs[one.rank]) == [True] * 2
        assert all((out == 3).all() for out in outs)
        assert [array[0] for array in arrays] == [1, 2]
        ranks.run(lambda one: one.allreduce(arrays[one.rank], arrays[one.rank]))
        assert all((array == 3).all() for array in arrays)
        stats = ranks.communicators[0].stats()
    assert stats.operations == 2
    assert stats.tensors == 2
    assert stats.bytes_reduced == 2 * 4000
    assert stats.bytes_sent > 0


BUFFER = np.zeros(100, np.float32)
READ_ONLY = np.zeros(10, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("arrays", "out", "message"),
    [
        (np.zeros((4, 4), np.float32)[:, ::2], None, "ascontiguousarray"),
        (np.zeros((4, 4), np.float32).T[1:], None, "ascontiguousarray"),
        ([1.0, 2.0], None, "no NumPy array"),
        (np.zeros(3, ">f4"), None, "native byte order"),
        ([np.zeros(3, np.float32), np.zeros(3)], None, "one dtype"),
        (np.zeros(10, np.float32), READ_ONLY, "writeable"),
        (np.zeros(10, np.float32), np.zeros(11, np.float32), "shape"),
        (np.zeros(10, np.float32), np.zeros(10), "float32"),
        (np.zeros(10, np.float32), [1.0], "out has to be"),
        ([np.zeros(10, np.float32)], [], "out has 0 arrays"),
        (BUFFER[:60], BUFFER[40:], "overlaps"),
        (BUFFER[40:], BUFFER[:60], "overlaps"),
        ([BUFFER[:20], BUFFER[20:40]], [BUFFER[20:40], BUFFER[:20]], "overlaps"),
        ([BUFFER[:20], BUFFER[:20]], [BUFFER[:20], BUFFER[:20]], "overlaps"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(alone: Communicator, arrays: Any, out: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        alone.allreduce(arrays, out)


def test_neighbours_do_not_overlap(alone: Communicator) -> None:
    buffer = np.arange(100, dtype=np.float32)
    alone.allreduce([buffer[:10], buffer[10:20]], [buffer[20:30], buffer[10:20]])
    assert buffer[20:30].tolist() == list(range(10))
    same = buffer[:10]
    alone.allreduce([same, same], [buffer[30:40], buffer[40:50]])  # inputs may be read twice
    assert buffer[40:50].tolist() == list(range(10))


@pytest.mark.parametrize("dtype", ["complex64", "uint32", "datetime64[s]", "U3", "O", "longdouble"])
def test_unsupported_dtypes_are_refused_by_name(alone: Communicator, dtype: str) -> None:
    with pytest.raises(UnsupportedDtypeError, match="float32") as refusal:
        alone.allreduce(np.zeros(3, dtype))
    assert np.dtype(dtype).name in str(refusal.value) or str(np.dtype(dtype)) in str(refusal.value)


@pytest.mark.parametrize(
    "options",
    [
        {"op": "max"},
        {"prescale_factor": 0.0},
        {"postscale_factor": float("nan")},
        {"prescale_factor": -1.0},
        {"block_size": 65537},
        {"block_size": 0},
        {"block_size": -1},
    ],
)
def test_impossible_arguments_are_refused_and_do_no_harm(alone: Communicator, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        alone.allreduce(np.ones(3, np.float32), **options)
    assert alone.allreduce(np.ones(3, np.float32)).tolist() == [1, 1, 1]


def test_integers_take_no_prescale_factor(alone: Communicator) -> None:
    with pytest.raises(ValueError, match="int32 takes no prescale"):
        alone.allreduce(np.ones(3, np.int32), prescale_factor=0.5)


def test_impossible_groups_and_settings_are_refused(tmp_path: Path) -> None:
    session = Session.random()
    for rank, size in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="not possible"):
            Communicator(rank, size, session)
    with pytest.raises(SettingError, match=r"nonesuch0.*lo"):
        Communicator(0, 2, session, interface="nonesuch0")
    with pytest.raises(SettingError, match="avx9"):
        Communicator(0, 2, session, kernels="avx9")
    with pytest.raises(SettingError, match="secret_file"):
        Communicator(0, 2, session, aggregators=["127.0.0.1:1"])
    with pytest.raises(SettingError, match="HOST:PORT"):
        Communicator(0, 2, session, aggregators=["here"], secret_file=tmp_path)
    with pytest.raises(TypeError):
        Communicator(0, 2, session, aggregators="127.0.0.1:1", secret_file=tmp_path)
    readable = tmp_path / "secret"
    readable.write_text("0123456789abcdef")
    readable.chmod(0o644)
    with pytest.raises(SettingError, match="chmod 600"):
        Communicator(0, 2, session, aggregators=["127.0.0.1:1"], secret_file=readable)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 2**40}, "not possible"),
        ({"block_size": 0}, "block_size is 0; allowed are 1 to 65536"),
        ({"slot_memory": -1}, "slot_memory is -1"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"connect_timeout": 0}, "connect_timeout is 0"),
        ({"port_range": (9, 5)}, "port_range is"),
        ({"port_range": (0, 5)}, "port_range is"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Communicator(**{"rank": 0, "size": 2, "session": Session.random(), **options})


def test_bytes_are_no_session() -> None:
    with pytest.raises(TypeError, match=r"Session\.from_bytes"):
        Communicator(0, 2, Session.random().to_bytes())  # type: ignore[arg-type]


def test_a_session_travels_as_bytes_and_hides_its_key() -> None:
    session = Session.random()
    assert Session.from_bytes(session.to_bytes()) == session
    following = session.next_generation()
    assert (following.session_id, following.key, following.generation) == (session.session_id, session.key, 1)
    assert Session.from_bytes(following.to_bytes()) == following
    assert pickle.loads(pickle.dumps(session)) == session
    assert Session.random() != session
    assert repr(session.key) not in repr(session)
    with pytest.raises(ValueError, match="no session"):
        Session.from_bytes(b"x")


def test_different_arrays_are_an_error_on_every_rank() -> None:
    with Ranks(2) as ranks:
        errors = ranks.errors(lambda one: one.allreduce(np.ones(10 + one.rank, np.float32), name="weights"))
        again = ranks.errors(lambda one: one.allreduce(np.ones(3, np.float32)))
    for error, second in zip(errors, again):
        assert isinstance(error, InvalidArgumentError)
        assert "10 elements" in str(error)
        assert "11 elements" in str(error)
        assert str(second) == str(error)  # a failure is final


def test_a_rank_that_goes_is_named() -> None:
    with Ranks(2) as ranks:
        ranks.communicators[1].close()
        with pytest.raises(PeerFailureError, match="rank 1"):
            ranks.communicators[0].allreduce(np.ones(1000, np.float32))


def test_a_missing_rank_is_named() -> None:
    one, other = (Communicator(rank, 2, Session.random(), connect_timeout=0.3) for rank in range(2))
    endpoints = [one.endpoint, other.endpoint]
    with pytest.raises(PeerFailureError, match="rank 1") as failure:
        one.connect(endpoints)
    for call in (lambda: one.connect(endpoints), lambda: one.allreduce(np.ones(3, np.float32))):
        with pytest.raises(PeerFailureError) as again:
            call()
        assert str(again.value) == str(failure.value)  # a failure is final


def test_a_stall_is_logged_before_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hvd_omniccl")
    with Ranks(2, timeout=0.3) as ranks, pytest.raises(PeerFailureError, match="rank 1"):
        ranks.communicators[0].allreduce(np.ones(3, np.float32), name="weights")
    warning = caplog.records[0]
    assert (warning.name, warning.levelno) == ("hvd_omniccl", logging.WARNING)
    assert "weights; waiting for rank 1" in warning.message


def test_closing_is_final_and_may_be_repeated() -> None:
    with Ranks(1) as ranks:
        one = ranks.communicators[0]
        one.allreduce(np.ones(3, np.float32))
        one.close()
        one.close()
        assert one.stats().operations == 1
        assert "closed" in repr(one)
        for call in (lambda: one.allreduce(np.ones(3)), lambda: one.allreduce([]), lambda: one.endpoint, one.connect):
            with pytest.raises(CommunicatorError, match="closed"):
                call()


def test_the_gil_is_free_while_it_waits_and_a_second_call_is_refused() -> None:
    with Ranks(2) as ranks:
        one, other = ranks.communicators
        waiting = threading.Thread(target=one.allreduce, args=(np.ones(10, np.float32),))
        waiting.start()
        while not one._busy.locked():
            os.sched_yield()
        with pytest.raises(CommunicatorError, match="another thread"):
            one.allreduce(np.ones(10, np.float32))
        other.allreduce(np.ones(10, np.float32))
        waiting.join()


def test_a_forked_child_is_refused_and_the_parent_goes_on() -> None:
    with Ranks(2) as ranks:
        child = os.fork()
        if child == 0:
            refused = 0
            for one in ranks.communicators:
                for call in (
                    lambda one=one: one.allreduce(np.ones(3, np.float32)),
                    one.stats,
                    one.close,
                    one.connect,
                ):
                    try:
                        call()
                    except ForkedProcessError:
                        refused += 1
            ranks.communicators.clear()
            del one, call  # the last references
            os._exit(refused)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 8
        results = ranks.run(lambda one: one.allreduce(np.ones(3, np.float32)))
    assert [one.tolist() for one in results] == [[2, 2, 2]] * 2


def test_a_forked_child_may_leave_a_with_block() -> None:
    with Ranks(1) as ranks:
        child = os.fork()
        if child == 0:
            try:
                with ranks.communicators[0]:
                    raise KeyError
            except KeyError:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ranks.communicators[0].allreduce(np.ones(3, np.float32))


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from hvd_omniccl import Communicator, Session
session = Session.random()
both = [
    Communicator(rank, 2, session, loopback_only=True, timeout=100.0, connect_timeout=100.0) for rank in range(2)
]
places = [one.endpoint for one in both]
def connect():
    other = threading.Thread(target=both[1].connect, args=(places,))
    other.start()
    both[0].connect(places)
    other.join()
def press():
    while not both[0]._busy.locked():
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGINT)
if sys.argv[1] == "allreduce":
    connect()
threading.Thread(target=press).start()
begin = time.monotonic()
try:
    if sys.argv[1] == "connect":
        both[0].connect(places)
    else:
        both[0].allreduce(np.ones(3, np.float32))
except KeyboardInterrupt:
    assert time.monotonic() < begin + 30  # long before the timeouts
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("call", ["connect", "allreduce"])
def test_control_c_ends_a_wait(tmp_path: Path, call: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, call]
    job = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (job.stdout, job.returncode) == ("interrupted\n", 0), job.stderr


def _rank_in_a_process(rank: int, session: bytes, pipe: Any) -> None:
    with Communicator(rank, 2, Session.from_bytes(session)) as one:
        pipe.send(one.endpoint)
        one.connect(pipe.recv())
        pipe.send(one.allreduce(np.arange(4.0) * (rank + 1)).tolist())


def test_ranks_in_processes() -> None:
    spawn = multiprocessing.get_context("spawn")
    session = Session.random().to_bytes()
    pipes, processes = [], []
    for rank in range(2):
        here, there = spawn.Pipe()
        processes.append(spawn.Process(target=_rank_in_a_process, args=(rank, session, there)))
        processes[-1].start()
        pipes.append(here)
    endpoints = [pipe.recv() for pipe in pipes]
    for pipe in pipes:
        pipe.send(endpoints)
    assert [pipe.recv() for pipe in pipes] == [[0.0, 3.0, 6.0, 9.0]] * 2
    for process in processes:
        process.join(20)
        assert process.exitcode == 0


def test_kernels_and_dtypes_are_listed() -> None:
    assert _native.available_kernels()[-1] == "scalar"
    assert {"int32", "int64", "float16", "float32", "float64"} <= set(_native.dtypes())
