"""The parts of `omniccl bench` that need no ranks: the data, the limits, the check of results, the command line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from hvd_omniccl.bench.campaign import Measurement, Settings, groups_of, needed_bytes
from hvd_omniccl.bench.case import PLACEMENTS, Case, cut, fill_expected, fill_input, masks_of
from hvd_omniccl.bench.commands import bench
from hvd_omniccl.bench.limits import HostRates, Shares, busiest_link_bytes, host_seconds, limit_seconds
from hvd_omniccl.bench.programs import PROGRAMS
from hvd_omniccl.bench.rank import count_wrong
from hvd_omniccl.bench.results import Results, rows_of
from hvd_omniccl.bench.units import size_from

HOST = HostRates(scan=10e9, fill=20e9, add=10e9, copy=5e9, cores=2)

cases = st.builds(
    Case,
    ranks=st.integers(1, 5),
    size=st.integers(1, 4000).map(lambda elements: elements * 8),
    density=st.sampled_from([0.0, 0.001, 0.1, 0.5, 1.0]),
    placement=st.sampled_from(PLACEMENTS),
    dtype=st.sampled_from(["float32", "float64", "int32", "float16"]),
    block_size=st.sampled_from([1, 7, 256]),
)


@settings(max_examples=150, deadline=None)
@given(cases, st.integers(0, 5))
def test_inputs_sum_to_what_is_expected(case: Case, seed: int) -> None:
    total = np.zeros(case.elements, np.float64)
    one, expected = np.empty(case.elements, case.dtype), np.empty(case.elements, case.dtype)
    for rank in range(case.ranks):
        fill_input(case, seed, rank, one)
        total += one
        blocks = [one[at : at + case.block_size].any() for at in range(0, case.elements, case.block_size)]
        assert np.array_equal(blocks, masks_of(case, seed)[rank])
    fill_expected(case, seed, expected)
    assert np.array_equal(total, expected)


@settings(max_examples=150, deadline=None)
@given(cases)
def test_placements(case: Case) -> None:
    masks = masks_of(case, 1)
    count = round(case.density * case.blocks)
    if case.placement != "clustered":
        assert (masks.sum(axis=1) == count).all()
    if case.placement == "overlapping":
        assert (masks == masks[0]).all()
    if case.placement == "disjoint":
        assert masks.sum(axis=0).max(initial=0) <= -(-case.ranks * count // case.blocks)


@settings(max_examples=100, deadline=None)
@given(cases, st.integers(1, 9))
def test_tensors_are_cut_at_blocks(case: Case, tensors: int) -> None:
    case = dataclasses.replace(case, tensors=min(tensors, case.blocks))
    array = np.arange(case.elements)
    pieces = cut(case, array)
    assert len(pieces) == case.tensors
    assert np.array_equal(np.concatenate(pieces), array)
    assert all(piece.size and piece[0] % case.block_size == 0 for piece in pieces)


def test_clustered_blocks_have_the_density_and_lie_in_front() -> None:
    masks = masks_of(Case(4, 1 << 26, 0.1, "clustered"), 1)
    assert masks.mean() == pytest.approx(0.1, rel=0.05)
    half = masks.shape[1] // 2
    assert masks[:, :half].sum() > 2 * masks[:, half:].sum()


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_the_limit_of_dense_data_is_that_of_a_ring(ranks: int) -> None:
    case = Case(ranks, 1 << 20, 1.0)
    shares = Shares.of(masks_of(case, 1))
    exclusive = 1 if ranks == 1 else 0
    assert shares == Shares((1.0,) * ranks, 1.0, (float(exclusive),) * ranks)
    assert busiest_link_bytes(case, shares) == pytest.approx(2 * case.size * (ranks - 1) / ranks)


def test_limits_by_hand() -> None:
    # Rank 0 has blocks 0 and 1, rank 1 blocks 1 and 2, of 4 blocks: d = 1/2, u = 3/4, o = 1/4.
    shares = Shares.of(np.array([[1, 1, 0, 0], [0, 1, 1, 0]], np.bool_))
    assert shares == Shares((0.5, 0.5), 0.75, (0.25, 0.25))
    case = Case(2, 4096, 0.5)
    assert busiest_link_bytes(case, shares) == 4096 / 2 * (0.5 + 0.75 - 0.25)
    # Two dedicated shards have two ranks' blocks in all: d + d over 2, and each rank receives u - o.
    assert busiest_link_bytes(Case(2, 4096, 0.5, aggregators=2), shares) == 4096 * 0.5
    assert busiest_link_bytes(Case(2, 4096, 0.5, aggregators=1), shares) == 4096 * 1.0
    seconds = 2 * 4096 * (1 / 10e9 + 0.25 / 20e9 + 0.75 / 5e9 + 0.5 / 10e9) / 2
    assert host_seconds(case, shares, HOST) == pytest.approx(seconds)
    assert limit_seconds(case, shares, 1e6, HOST) == (2048 / 1e6, "link")
    assert limit_seconds(case, shares, 1e12, HOST) == (pytest.approx(seconds), "host")


class _Wrong:
    """A rank whose result is wrong in three elements."""

    def __init__(self, result: np.ndarray) -> None:
        self._result = result.copy()
        self._result[[0, 5, -1]] += 1

    def result(self) -> np.ndarray:
        return self._result


def test_wrong_elements_are_counted_and_reported() -> None:
    case = Case(2, 1 << 12, 0.5)
    expected = np.empty(case.elements, case.dtype)
    fill_expected(case, 1, expected)
    assert count_wrong(case, 1, _Wrong(expected)) == 3  # type: ignore[arg-type]
    wrong = Measurement(case, "gloo", [0.1], [0.1], wrong=3)
    failed = Measurement(case, "mpich", failure="it ended with status 1")
    results = Results({}, 1e9, HOST, rows_of([wrong, failed], 1, 1e9, HOST), {})
    assert [text.partition(",")[0] for text in results.failures] == ["gloo", "mpich"]
    assert "3 elements are wrong" in results.failures[0]


def test_results_are_compared_on_equal_terms() -> None:
    case = Case(2, 1 << 12, 0.5)
    times = {
        "omniccl": 1.0,
        "omniccl, huge pages": 0.5,
        "horovod-gloo": 3.0,
        "horovod-gloo, huge pages": 2.0,
        "omniccl in horovod-gloo": 1.5,
    }
    rows = rows_of([Measurement(case, mode, [time], [time]) for mode, time in times.items()], 1, 1e9, HOST)
    ratios = {row.measurement.mode: (row.engine, row.plug_in) for row in rows}
    assert ratios["horovod-gloo"] == (3.0, 2.0)
    assert ratios["horovod-gloo, huge pages"] == (4.0, None)
    assert ratios["omniccl"] == ratios["omniccl in horovod-gloo"] == (None, None)


def test_jobs_and_memory() -> None:
    small, large, dedicated = Case(2, 1 << 10, 1.0), Case(4, 1 << 30, 1.0), Case(2, 1 << 10, 1.0, aggregators=1)
    other_way = Case(2, 1 << 10, 1.0, transport="tcp")
    groups = [[small, small], [large], [dedicated], [other_way]]
    assert groups_of([small, large, dedicated, small, other_way]) == groups
    engine = [program for program in PROGRAMS if program.name == "omniccl"]
    assert needed_bytes(Settings([small, large], engine)) >= 4 * 3 * (1 << 30)


@pytest.mark.parametrize(("text", "size"), [("4K", 4096), ("1 MiB", 1 << 20), ("7", 7), ("2GB", 2 << 30)])
def test_sizes(text: str, size: int) -> None:
    assert size_from(text) == size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", "2,no"], "'no' is not allowed; allowed: 1 to 64"),
        (["--ranks", "0"], "'0' is not allowed"),
        (["--density", "101"], "'101' is not allowed; allowed: 0 to 100"),
        (["--density", "nan"], "'nan' is not allowed"),
        (["--size", "0"], "'0' is not allowed; allowed: a size"),
        (["--size", "1M,,"], "'' is not allowed"),
        (["--placement", "here"], "allowed: random, overlapping, disjoint, clustered"),
        (["--program", "nccl"], "allowed: omniccl, gloo, horovod-gloo"),
        (["--size", "6", "--dtype", "float32"], "6 bytes are no whole number of float32"),
        (["--size", "4K", "--tensors", "5"], "4 KiB have 4 blocks, too few for 5 tensors"),
        (["--transport", "ucx"], "allowed: auto, tcp, shm"),
        (["--rate", "fast"], "a rate is such as 1gbit"),
        (["--ranks", "64", "--size", "64G"], "of memory, and"),
        (["--json", "/no/such/folder/x.json"], "there is no folder /no/such/folder"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(bench, ["allreduce", *arguments])
    assert done.exit_code != 0
    assert message in done.output


def test_kernels_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    done = CliRunner().invoke(bench, ["kernels", "--size", "1M", "--repetitions", "2", "--json", str(path)])
    assert done.exit_code == 0, done.output
    rates = json.loads(path.read_text())["rates"]
    assert {"scan", "sum", "gather", "fill"} <= {rate["operation"] for rate in rates if rate["kernels"] == "scalar"}
    assert all(rate["bytes_per_second"] > 0 for rate in rates)
    assert CliRunner().invoke(bench, ["kernels", "--size", "much"]).exit_code == 2
