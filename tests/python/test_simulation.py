"""The simulation of how an allreduce grows: its limits, its symmetries, and times that were measured."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hvd_omniccl.bench import simulation as sim
from hvd_omniccl.bench.commands import bench

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
MIB = 1024 * 1024
NO_COST = sim.HostRates(*[math.inf] * 8, 0.0, 0.0)
# Only links take time.
LINKS = sim.System(rate_bits=1e9, latency=20e-6, rates=NO_COST, card_rates=NO_COST, card_shards=1)
PLAIN = sim.System(rate_bits=1e9, card_shards=1)

# Measured elsewhere, on 2 cores for all ranks: 100 MiB, random blocks of 1 KiB, no payload checksums; by ranks and
# density, in seconds. First on links of 955 Mbit/s, then on links without a limit. A sanity check of the model, not a
# claim about this package.
LIMITED = {
    (2, 1.0): 0.8811,
    (2, 0.4): 0.3514,
    (2, 0.2): 0.1757,
    (2, 0.1): 0.0885,
    (2, 0.05): 0.0451,
    (4, 1.0): 1.3191,
    (4, 0.4): 0.7835,
    (4, 0.2): 0.4557,
    (4, 0.1): 0.2467,
    (4, 0.05): 0.1325,
    (8, 1.0): 1.5507,
    (8, 0.4): 1.0619,
    (8, 0.2): 0.7697,
    (8, 0.1): 0.5016,
    (8, 0.05): 0.3239,
}
# Without (2, 0.4): 0.0987 s, which is more than twice the row below it; the model says 0.061.
UNLIMITED = {
    (2, 1.0): 0.1080,
    (2, 0.2): 0.0457,
    (2, 0.1): 0.0358,
    (2, 0.05): 0.0284,
    (4, 1.0): 0.2172,
    (4, 0.4): 0.1761,
    (4, 0.2): 0.1439,
    (4, 0.1): 0.0999,
    (4, 0.05): 0.0763,
}


def seconds(system: Any, folded: bool | None = None, **job: Any) -> float:
    found: float = sim.simulate(system, sim.Job(**job), folded).seconds
    return found


@pytest.mark.parametrize("placement", ["random", "overlapping", "disjoint"])
@pytest.mark.parametrize(("ranks", "shards"), [(1, 1), (2, 0), (4, 0), (8, 0), (4, 4), (8, 2), (2, 4)])
@pytest.mark.parametrize("density", [1.0, 0.3, 0.02])
def test_no_link_is_faster_than_its_rate(ranks: int, shards: int, density: float, placement: str) -> None:
    job = sim.Job(8 * MIB, ranks, shards, density, placement)
    # The places are drawn: of few blocks some more or fewer are taken than expected.
    spread = 4 / math.sqrt(density * 8 * 1024) if density < 1 else 0
    for folded in (False, True):
        assert sim.simulate(LINKS, job, folded).seconds >= sim.link_limit(LINKS, job) * (1 - spread)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_a_dense_embedded_allreduce_takes_as_long_as_a_ring(ranks: int) -> None:
    job = sim.Job(100 * MIB, ranks)
    ring = sim.ring_limit(LINKS, job)
    assert sim.link_limit(LINKS, job) == pytest.approx(ring)
    assert ring <= sim.simulate(LINKS, job).seconds <= 1.03 * ring


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_as_many_dedicated_shards_as_ranks_halve_what_a_link_carries(ranks: int) -> None:
    found = sim.simulate(LINKS, sim.Job(100 * MIB, ranks, ranks))
    assert found.seconds == pytest.approx(100 * MIB / LINKS.rate, rel=0.03)
    assert found.rank_sent == pytest.approx(100 * MIB, rel=0.001)
    assert found.rank_received == pytest.approx(100 * MIB, rel=0.001)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("density", [0.4, 0.1])
def test_a_sparse_one_comes_near_the_limit_of_the_links(ranks: int, density: float) -> None:
    job = sim.Job(100 * MIB, ranks, density=density)
    assert sim.simulate(LINKS, job).seconds == pytest.approx(sim.link_limit(LINKS, job), rel=0.04)


def test_without_blocks_only_heads_travel() -> None:
    found = sim.simulate(PLAIN, sim.Job(100 * MIB, 4, density=0.0))
    assert 0 < found.rank_sent < 100 * MIB / 1000
    # Reading the tensor and writing zeros is what remains.
    memory = 100 * MIB * (1 / PLAIN.rates.scan + 1 / PLAIN.rates.fill)
    assert memory <= found.seconds <= 1.6 * memory


def test_one_rank_sends_nothing() -> None:
    found = sim.simulate(PLAIN, sim.Job(100 * MIB, 1, density=0.5))
    assert (found.rank_sent, found.rank_received) == (0, 0)
    assert found.bottleneck == "rank cores"
    assert sim.simulate(PLAIN, sim.Job(0, 4)).seconds == 0


@pytest.mark.parametrize("shards", [0, 8])
@pytest.mark.parametrize("ranks", [8, 64])
def test_more_work_or_slower_links_take_longer(ranks: int, shards: int) -> None:
    by_density = [seconds(PLAIN, size=64 * MIB, ranks=ranks, shards=shards, density=d) for d in (0, 0.02, 0.2, 1)]
    assert by_density == sorted(by_density)
    by_size = [seconds(PLAIN, size=s * MIB, ranks=ranks, shards=shards, density=0.5) for s in (1, 4, 16, 64)]
    assert by_size == sorted(by_size)
    rates = [replace(PLAIN, rate_bits=rate) for rate in (100e9, 10e9, 1e9, 1e8)]
    by_rate = [seconds(system, size=16 * MIB, ranks=ranks, shards=shards, density=0.5) for system in rates]
    # Where links do not matter, frames come in another order and a little time with it.
    assert all(slow >= 0.99 * fast for fast, slow in zip(by_rate, by_rate[1:]))


@pytest.mark.parametrize("gbit", [1, 100])
@pytest.mark.parametrize(
    ("ranks", "per_card", "cards"), [(2, 1, 0), (4, 1, 0), (8, 1, 0), (16, 1, 0), (8, 1, 8), (8, 4, 2), (4, 1, 8)]
)
@pytest.mark.parametrize("density", [1.0, 0.1])
def test_one_rank_and_one_host_of_shards_stand_for_all(
    gbit: int, ranks: int, per_card: int, cards: int, density: float
) -> None:
    system = replace(PLAIN, rate_bits=gbit * 1e9, card_shards=per_card)
    job = sim.Job(50 * MIB, ranks, cards * per_card, density)
    full, folded = sim.simulate(system, job, False), sim.simulate(system, job, True)
    assert folded.seconds == pytest.approx(full.seconds, rel=0.06)
    assert folded.rank_sent == pytest.approx(full.rank_sent, rel=0.05)
    assert folded.core_seconds == pytest.approx(full.core_seconds, rel=0.05)
    # The peak is of one moment, and so only roughly the same.
    assert folded.slot_memory == full.slot_memory >= folded.slot_peak
    assert full.slot_peak / 2 <= folded.slot_peak <= full.slot_peak * 2


def test_cores_for_all_ranks_fold_too() -> None:
    system = replace(PLAIN, shared_cores=2)
    job = sim.Job(50 * MIB, 8, density=0.05)
    full, folded = sim.simulate(system, job, False), sim.simulate(system, job, True)
    assert folded.seconds == pytest.approx(full.seconds, rel=0.06)
    assert folded.core_seconds == pytest.approx(full.core_seconds, rel=0.05)


def test_the_same_job_gives_the_same_outcome() -> None:
    for folded in (False, True):
        job = sim.Job(20 * MIB, 4, density=0.2, seed=3)
        assert sim.simulate(PLAIN, job, folded) == sim.simulate(PLAIN, job, folded)
        assert sim.simulate(PLAIN, job, folded) != sim.simulate(PLAIN, replace(job, seed=4), folded)


def test_sums_are_slower_when_the_slots_outgrow_the_cache() -> None:
    system = replace(PLAIN, rate_bits=400e9, rates=sim.offloaded(PLAIN.rates))
    small = replace(system, cache=MIB)
    assert seconds(small, size=50 * MIB, ranks=16) > 1.1 * seconds(system, size=50 * MIB, ranks=16)


def test_chunk_and_window_are_the_engines() -> None:
    cut = sim.cut_job(sim.Job(100 * MIB, 4))
    assert (cut.chunk_blocks, cut.window, cut.ring, cut.rings) == (128, 384 * 1024, 512 * 1024, 4)
    cut = sim.cut_job(sim.Job(100 * MIB, 3, 2, slot_memory=4 * 64 * 1024))
    assert (cut.chunk_blocks, cut.window, cut.rings) == (32, 32 * 1024, 4)
    # A small tensor is cut so that every shard has a share, but not below 16 KiB.
    assert sim.cut_job(sim.Job(MIB, 16)).chunk_blocks == 64
    assert sim.cut_job(sim.Job(MIB, 1024)).chunk_blocks == 16
    with pytest.raises(ValueError, match="slot memory is at least 8192"):
        sim.cut_job(sim.Job(MIB, 4, slot_memory=4096))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="placement"):
        sim.Job(placement="clustered")
    with pytest.raises(ValueError, match="density"):
        sim.Job(density=2.0)
    with pytest.raises(ValueError, match="multiple"):
        sim.simulate(PLAIN, sim.Job(MIB, 3, 2), folded=True)
    with pytest.raises(ValueError, match="do not fill"):
        sim.simulate(sim.System(card_shards=8), sim.Job(MIB, 4, 4))


def scaling(*arguments: str) -> str:
    done = CliRunner().invoke(bench, ["scaling", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_tables_have_what_their_text_says() -> None:
    rows = json.loads(scaling("--ranks", "16", "--gbit", "10", "--ranks-per-card", "0,4", "--json"))
    assert [row["shards"] for row in rows] == ["embedded"] * 3 + ["4 cards"] * 3
    assert all(row["ms"] > 0 and row["bottleneck"] for row in rows)
    memory = scaling("--table", "memory", "--ranks", "64")
    assert memory.startswith("| ranks | Gbit/s | shards | ring KiB | chunk KiB | window KiB |")
    lines = scaling("--table", "window", "--ranks", "2").splitlines()
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("name", ["1gbit-engine.json", "1gbit.json"])
def test_our_own_measurements_come_out(name: str) -> None:
    """At 1 % the cores decide, whose times scatter by more than that: those are shown and not demanded."""
    rows = json.loads(scaling("--against", str(RESULTS / name), "--json"))
    assert len(rows) >= 9
    wrong = [row for row in rows if abs(row["error %"]) > 15 and row["density %"] >= 5]
    assert not wrong, sim.markdown(wrong)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    for number, text in enumerate(("{}", "[1]", "no JSON")):
        path = tmp_path / str(number)
        path.write_text(text)
        done = CliRunner().invoke(bench, ["scaling", "--against", str(path)])
        assert done.exit_code == 1
        assert "is not what bench allreduce wrote" in done.output


def test_measured_times_come_out() -> None:
    rates = replace(sim.HostRates(), checksum=math.inf)
    table = [
        {"ranks": ranks, "density": density, "seconds": time, "rate_bits": rate, "cores": 2, "machine": "ignored"}
        for rate, times in ((955e6, LIMITED), (1e12, UNLIMITED))
        for (ranks, density), time in times.items()
    ]
    rows = sim.validation_table(table, sim.System(rates=rates))
    assert len(rows) == len(table)
    wrong = [row for row in rows if abs(row["error %"]) > 15]
    assert not wrong, sim.markdown(wrong)
