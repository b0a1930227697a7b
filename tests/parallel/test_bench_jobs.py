"""`omniccl bench` as a user runs it, on little data: that it works and that all sums are right, never how fast."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from launch import BIN, HERE, environment, run_job

from hvd_omniccl.bench.network import reason_against

DEADLINE_SECONDS = 240
EXAMPLES = HERE.parent.parent / "examples"


def bench(folder: Path, *arguments: str) -> dict[str, object]:
    command = [str(BIN / "omniccl"), "bench", "allreduce", "--json", str(folder / "figures.json")]
    done = run_job([*command, "--rounds", "1", "--repetitions", "2", *arguments], DEADLINE_SECONDS)
    assert done.status == 0, done.output
    figures: dict[str, object] = json.loads((folder / "figures.json").read_text())
    return figures


def check(figures: dict[str, object], cases: int, modes: set[str]) -> None:
    rows = figures["rows"]
    assert isinstance(rows, list)
    assert {row["mode"] for row in rows} == modes
    assert len(rows) == cases * len(modes)
    for row in rows:
        assert len(row["seconds"]) == 2
        assert (row["wrong"], row["failure"]) == (0, None)
        assert row["efficiency"] > 0


def test_all_programs_on_loopback(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    axes = ["--ranks", "2", "--size", "4K,300K", "--density", "100,10,0", "--tensors", "1,3", "--report", str(page)]
    figures = bench(tmp_path, *axes)
    stock = {"horovod-gloo", "horovod-mpi"}
    modes = {"omniccl", "gloo", "openmpi", "mpich", *stock, *(f"omniccl in {name}" for name in stock)}
    check(figures, 12, modes)
    assert figures["missing"] == {}
    assert page.read_text().count("<svg") == 4


def test_every_kind_of_data(tmp_path: Path) -> None:
    axes = ["--ranks", "1,3", "--size", "64K", "--density", "30", "--block-size", "16,256", "--aggregators", "0,1"]
    kinds = ["--placement", "random,overlapping,disjoint,clustered", "--dtype", "float32,float16,int64"]
    check(bench(tmp_path, "--program", "omniccl", *axes, *kinds), 2 * 2 * 2 * 4 * 3, {"omniccl"})


def test_transports(tmp_path: Path) -> None:
    axes = ["--ranks", "2", "--size", "64K", "--density", "50", "--transport", "tcp,shm"]
    rows = bench(tmp_path, "--program", "omniccl,gloo", *axes)["rows"]
    assert isinstance(rows, list)
    ran = [(row["mode"], row["case"]["transport"]) for row in rows]
    assert sorted(ran) == [("gloo", "tcp"), ("omniccl", "shm"), ("omniccl", "tcp")]
    assert all(row["wrong"] == 0 and row["failure"] is None for row in rows)


@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
def test_all_programs_on_hosts(tmp_path: Path) -> None:
    figures = bench(tmp_path, "--ranks", "2", "--size", "64K", "--density", "50", "--rate", "1gbit")
    stock = {"horovod-gloo", "horovod-mpi"}
    check(figures, 1, {"omniccl", "gloo", "openmpi", "mpich", *stock, *(f"omniccl in {name}" for name in stock)})


@pytest.mark.parametrize("example", ["keras_ncf_movielens.py", "tf2_word2vec.py"])
def test_training(example: str, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    command = [str(BIN / "omniccl"), "bench", "train", "--ranks", "2", "--steps", "5", "--json", str(path)]
    done = run_job([*command, str(EXAMPLES / example), "--dim", "16"], DEADLINE_SECONDS)
    assert done.status == 0, done.output
    trainings = json.loads(path.read_text())["trainings"]
    assert [one["way"] for one in trainings] == ["omniccl", "dense", "slices"]
    sent = {one["way"]: one["bytes_per_step"][0] for one in trainings}
    assert 0 < sent["omniccl"] < sent["dense"]
    assert all(one["losses"][0] == pytest.approx(trainings[0]["losses"][0], rel=1e-3) for one in trainings)


def test_a_training_that_fails_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('no such data')")
    done = run_job([str(BIN / "omniccl"), "bench", "train", "--ranks", "2", str(script)], DEADLINE_SECONDS)
    assert done.status == 1
    assert "no such data" in done.output


@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
def test_what_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [str(BIN / "omniccl"), "bench", "allreduce", "--program", "omniccl", "--rate", "1gbit", "--ranks", "2"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--size", "1M", "--repetitions", "10000"], env=environment(), stderr=log, stdout=log
        )
    deadline = time.monotonic() + DEADLINE_SECONDS
    while "[1/" not in (tmp_path / "log").read_text():
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_SECONDS) == 128 + signal.SIGTERM
    tag = f"oc{process.pid}"
    assert tag not in subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    assert tag not in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert not list(Path("/etc/netns").glob(f"{tag}*"))
