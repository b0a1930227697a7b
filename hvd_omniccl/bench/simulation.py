"""A discrete-event simulation of one allreduce: how its time grows with ranks, links, cores and memory.

Chunks, windows and slot memory follow the engine (``docs/protocol.md``); links and cores are servers with a rate.
``docs/scaling.md`` says what is left out. This file needs NumPy only and runs by itself:
``python hvd_omniccl/bench/simulation.py --help``.
"""

from __future__ import annotations

import heapq
import json
import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

KIB = 1024
MIB = 1024 * KIB

# As in native/protocol/limits.h and native/engine/communicator.cpp.
MAX_CHUNK_BYTES = 128 * KIB
MIN_CHUNK_BYTES = 16 * KIB
MAX_CHUNK_BLOCKS = 8192
MAX_CHUNKS_IN_FLIGHT = 256
DEFAULT_SLOT_MEMORY_PER_PEER = 512 * KIB
CHUNKS_PER_TURN = 16
# What a connection sends before others on its link have a turn.
BURST_BYTES = 32 * KIB
# Prefix and head of a frame without its bitmaps, for a chunk within one tensor (docs/protocol.md).
CONTRIBUTION_HEAD_BYTES = 24 + 28 + 12
RESULT_HEAD_BYTES = 24 + 16

PLACEMENTS = ("random", "overlapping", "disjoint")
# Below this share of the time no resource is called the bottleneck.
BUSY_ENOUGH = 0.7
WAITING = "none: waits"
# Above this many ranks simulate() folds: all pairs of ranks would take minutes.
MAX_UNFOLDED_RANKS = 8

Row = dict[str, Union[int, float, str]]
Counts = npt.NDArray[np.int64]


# --- What is given -------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostRates:
    """What one core does.

    Attributes
    ----------
    scan, fill, copy
        Bytes a second of the zero test, of writing zeros past the cache, and of ``memcpy``.
    send, receive
        Bytes a second of a plain TCP stream, with the kernel's share. The default is a loopback stream of 26.6 Gbit/s,
        both ways together, that fills two cores: 1.66 GB/s sent and received per core.
    add, add_uncached
        Bytes of contributions a second that are summed, when they wait in the last-level cache and when they do not.
    checksum
        Bytes a second of the CRC32C over the payload; infinite where it is off.
    frame
        Seconds for a frame at either end beside its bytes: heads, bitmaps, its part of system calls and wake-ups.
    run
        Seconds for a run of adjacent blocks that is gathered from the tensor or scattered over it, beside its bytes.
    """

    scan: float = 10e9
    fill: float = 20e9
    copy: float = 5e9
    send: float = 3.3e9
    receive: float = 3.3e9
    add: float = 10e9
    add_uncached: float = 4e9
    checksum: float = 15e9
    frame: float = 2.5e-6
    run: float = 0.3e-6

    def scan_seconds(self, chunk: int, nonzero: int) -> float:
        """Time to find the ``nonzero`` bytes of ``chunk`` bytes."""
        # A block that is not zero is left at its first element; what remains is the latency of memory: about half.
        return (chunk - nonzero / 2) / self.scan

    def run_seconds(self, blocks: float, of: float) -> float:
        """Time for the runs that ``blocks`` make among ``of`` when they lie at random."""
        return self.run * blocks * (of - blocks + 1) / of if of else 0.0

    def send_seconds(self, payload: int, frames: int) -> float:
        """Time to hand ``payload`` to the network."""
        return payload * (1 / self.send + 1 / self.checksum) + frames * self.frame

    def receive_seconds(self, payload: int, frames: int) -> float:
        """Time to take ``payload`` from the network."""
        return payload * (1 / self.receive + 1 / self.checksum) + frames * self.frame


# Assumed, not measured: Arm cores of a SmartNIC with half the speed of a host's.
CARD_RATES = HostRates(5e9, 10e9, 2.5e9, 1.65e9, 1.65e9, 5e9, 1.5e9, 7.5e9, 5e-6, 0.6e-6)


def offloaded(rates: HostRates) -> HostRates:
    """Return ``rates`` where the adapter moves the bytes and checks them (RDMA); assumed, not measured."""
    return replace(rates, send=math.inf, receive=math.inf, checksum=math.inf, frame=rates.frame / 5)


@dataclass(frozen=True)
class System:
    """The hardware.

    Attributes
    ----------
    rate_bits
        Payload of a rank's link, bits a second in each direction.
    latency
        Seconds from one host to another, one way.
    rates, threads, cache
        Of a rank's host: speed of a core, threads that reduce (the engine has one), bytes of last-level cache.
    shared_cores
        When given, all ranks run on one machine with so many cores and one cache. Their links stay their own.
    card_rate_bits, card_rates, card_cache
        The same for a host of dedicated shards, such as a SmartNIC; ``card_rate_bits`` is the ranks' when not given.
    card_shards
        Shards on such a host: how often its daemon is named. Each has a thread, and a core for it.
    """

    rate_bits: float = 955e6
    latency: float = 20e-6
    rates: HostRates = field(default_factory=HostRates)
    threads: int = 1
    shared_cores: Optional[int] = None
    cache: int = 32 * MIB
    card_rate_bits: Optional[float] = None
    card_rates: HostRates = CARD_RATES
    card_cache: int = 6 * MIB
    card_shards: int = 8

    @property
    def rate(self) -> float:
        """Bytes a second of a rank's link."""
        return self.rate_bits / 8

    @property
    def card_rate(self) -> float:
        """Bytes a second of a dedicated shard's link."""
        return (self.card_rate_bits or self.rate_bits) / 8


@dataclass(frozen=True)
class Job:
    """One allreduce.

    Attributes
    ----------
    size
        Bytes of the tensor.
    ranks, shards
        Their numbers; 0 shards: one is embedded in each rank.
    density, placement
        Share of blocks that are not zero at a rank, and how they lie: ``random`` (independent), ``overlapping`` (the
        same ones at all ranks) or ``disjoint`` (as few ranks share a block as possible).
    block
        Bytes of a block.
    slot_memory
        Bytes in which a shard sums; 0: the engine's default.
    chunk, window
        Bytes, instead of what follows from the slot memory.
    seed
        Of the places of the blocks.
    """

    size: int = 100 * MIB
    ranks: int = 2
    shards: int = 0
    density: float = 1.0
    placement: str = "random"
    block: int = KIB
    slot_memory: int = 0
    chunk: Optional[int] = None
    window: Optional[int] = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement is one of {', '.join(PLACEMENTS)}, not {self.placement!r}")
        if self.ranks < 1 or self.shards < 0 or self.size < 0 or self.block < 1:
            raise ValueError("a job has at least 1 rank, 0 shards, 0 bytes and blocks of 1 byte")
        if not 0 <= self.density <= 1:
            raise ValueError(f"density is 0 to 1, not {self.density}")

    @property
    def embedded(self) -> bool:
        """Whether the shards live in the ranks."""
        return self.shards == 0


@dataclass(frozen=True)
class Outcome:
    """What the simulation found.

    Attributes
    ----------
    seconds
        From the start of all ranks to the last result written.
    busy
        Share of that time in which the busiest of each kind of resource was busy.
    bottleneck
        The busiest resource, or that none is.
    slot_memory, slot_peak
        Bytes that a shard reserves, and the most that contributions and results took of them in any shard.
    rank_sent, rank_received, shard_sent, shard_received
        Bytes with heads. An embedded shard's are part of its rank's.
    core_seconds
        Of all cores together.
    """

    seconds: float
    busy: Mapping[str, float]
    bottleneck: str
    slot_memory: int
    slot_peak: int
    rank_sent: int
    rank_received: int
    shard_sent: int
    shard_received: int
    core_seconds: float


def cards(system: System, job: Job) -> int:
    """Return the number of hosts with shards: the ranks, or those of dedicated ones."""
    if job.embedded:
        return job.ranks
    if job.shards % system.card_shards:
        raise ValueError(f"{job.shards} shards do not fill cards of {system.card_shards}")
    return job.shards // system.card_shards


def block_shares(job: Job) -> tuple[float, float, float]:
    """Return which shares of the blocks are not zero at a rank (d), at any rank (u), and at one given rank only (o)."""
    d, ranks = job.density, job.ranks
    if ranks == 1:
        return d, d, d
    if job.placement == "random":
        return d, 1 - (1 - d) ** ranks, d * (1 - d) ** (ranks - 1)
    if job.placement == "overlapping":
        return d, d, 0.0
    copies = ranks * d
    return d, min(1.0, copies), (copies if copies < 1 else max(0.0, 2 - copies)) / ranks


def link_limit(system: System, job: Job) -> float:
    """Return the seconds that the links need at least: the bytes of the busiest direction over its rate."""
    d, u, o = block_shares(job)
    if job.embedded:
        return job.size * (job.ranks - 1) / job.ranks * (d + u - o) / system.rate
    most = job.size * max(d, u - o)
    return max(most / system.rate, most * job.ranks / cards(system, job) / system.card_rate)


def ring_limit(system: System, job: Job) -> float:
    """Return the seconds of an ideal dense ring allreduce on the ranks' links."""
    return 2 * job.size * (job.ranks - 1) / job.ranks / system.rate


# --- How the engine cuts ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Chunks and memory of a job, as ``native/protocol/slot_memory.h`` and ``native/engine/reduction_plan.cpp``."""

    blocks: int  # of the tensor
    chunk_blocks: int
    shards: int
    rings: int
    ring: int  # bytes
    window: int  # bytes

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.blocks // self.chunk_blocks)

    @property
    def rounds(self) -> int:
        """Most chunks that a shard has."""
        return -(-self.chunks // self.shards)

    def blocks_of(self, chunk: int) -> int:
        """Return the blocks of a chunk; none beyond the last one."""
        return max(0, min(self.chunk_blocks, self.blocks - chunk * self.chunk_blocks))


def cut_job(job: Job) -> Cut:
    """Return the cut of a job.

    Raises
    ------
    ValueError
        When a block does not fit a chunk.
    """
    shards = job.shards or job.ranks
    rings = job.ranks if job.embedded else job.ranks + 1
    ring = (job.slot_memory or DEFAULT_SLOT_MEMORY_PER_PEER * rings) // rings
    most = job.chunk or min(MAX_CHUNK_BYTES, ring // 2)
    window = job.window or ring - min(MAX_CHUNK_BYTES, ring // 2)
    if job.chunk or job.window:
        ring = window + most
    share = -(-job.size // shards)
    chunk = min(max(share, min(MIN_CHUNK_BYTES, most)), most)
    if job.block > most or job.block > window:
        raise ValueError(f"a block of {job.block} bytes does not fit: slot memory is at least {2 * rings * job.block}")
    chunk_blocks = max(1, min(chunk // job.block, MAX_CHUNK_BLOCKS))
    return Cut(-(-job.size // job.block), chunk_blocks, shards, rings, ring, window)


# --- What travels -----------------------------------------------------------------------------------


class Round(NamedTuple):
    """One chunk of a flow. In a folded model a flow stands for several pairs, and its two ends differ."""

    chunk: int  # bytes of the chunk at the rank's end; and of them:
    sent: int
    taken: int  # the result that comes back
    own: int  # the rank's own blocks that no other rank has
    frames: int  # at the rank's end
    arriving: int  # bytes at the shard's end
    returned: int
    shard_frames: int


class Sum(NamedTuple):
    """One chunk of a shard, in bytes."""

    chunk: int
    union: int
    added: int  # all contributions
    local: int  # of it the contribution of the rank where the shard lives


class Traffic(NamedTuple):
    """All that one rank-shard pair, or one shard, has to do."""

    flows: dict[tuple[int, int], list[Round]]
    sums: dict[int, list[Sum]]


def _owners(job: Job, blocks: int, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return which ranks (rows) have which of the blocks (columns)."""
    if job.placement == "random":
        return random.random((job.ranks, blocks)) < job.density
    if job.placement == "overlapping":
        return np.broadcast_to(random.random(blocks) < job.density, (job.ranks, blocks))
    # Every block at as many ranks, one behind the other, as the density asks for.
    copies = np.floor(job.ranks * job.density + random.random(blocks))
    first = random.integers(job.ranks, size=blocks)
    place = (np.arange(job.ranks)[:, None] - first[None, :]) % job.ranks
    return np.asarray(place < copies[None, :])


def draw_pairs(job: Job, cut: Cut) -> Traffic:
    """Draw the traffic of every pair of rank and shard, from blocks placed one by one."""
    random = np.random.default_rng(job.seed)
    traffic = Traffic({}, {shard: [] for shard in range(cut.shards)})
    for chunk in range(cut.chunks):
        blocks = cut.blocks_of(chunk)
        owners = _owners(job, blocks, random)
        owner_count = owners.sum(axis=0)
        nonzero = (owners.sum(axis=1) * job.block).tolist()
        own = ((owners & (owner_count == 1)).sum(axis=1) * job.block).tolist()
        union = int((owner_count > 0).sum()) * job.block
        size, shard = blocks * job.block, chunk % cut.shards
        local = nonzero[shard] if job.embedded else 0
        traffic.sums[shard].append(Sum(size, union, sum(nonzero), local))
        for rank in range(job.ranks):
            if job.embedded and rank == shard:
                continue
            back = union - own[rank]
            row = Round(size, nonzero[rank], back, own[rank], 1, nonzero[rank], back, 1)
            traffic.flows.setdefault((rank, shard), []).append(row)
    return traffic


def draw_folded(job: Job, cut: Cut, hosts: int) -> Traffic:
    """Draw the traffic of one rank and of the shards on one of ``hosts``, for all ranks and all hosts behave alike.

    Shard j is on host j mod ``hosts``. What the rank sends to a shard on the p-th host is, at the same time, what the
    same shard on host 0 receives from the p-th rank before it. With more ranks than hosts, or more hosts than ranks,
    several of one kind stand at one end of a flow. Host 0 has the most chunks.
    """
    random = np.random.default_rng(job.seed)
    groups = min(job.ranks, hosts)
    traffic = Traffic({}, {})
    for shard in range(0, cut.shards, hosts):
        full = [cut.blocks_of(k * cut.shards + shard) for k in range(cut.rounds)]
        union = random.binomial(full, block_shares(job)[1])
        local = random.binomial(full, job.density) if job.embedded else np.zeros_like(union)
        added = local.copy()
        for group in range(1 if job.embedded else 0, groups):
            others = range(shard + group, shard + hosts, groups)
            chunks = [[k * cut.shards + other for other in others] for k in range(cut.rounds)]
            arriving, columns = _draw_group(job, cut, random, full, union, chunks, job.ranks // groups)
            added += arriving
            traffic.flows[0, shard + group] = [Round(*row) for row in columns if row[-1]]
        sums = [np.array(full, dtype=np.int64), union, added, local]
        rows = zip(*((column * job.block).tolist() for column in sums))
        traffic.sums[shard] = [Sum(*row) for row in rows if row[0]]
    return traffic


def _draw_group(
    job: Job,
    cut: Cut,
    random: np.random.Generator,
    full: list[int],
    union: Counts,
    chunks: list[list[int]],
    copies: int,
) -> tuple[Counts, Iterable[tuple[int, ...]]]:
    """Return the blocks that arrive in each round, and the columns of a flow's rounds."""
    d, u, o = block_shares(job)
    alone = o / u if u else 0.0
    blocks = np.array([sum(map(cut.blocks_of, row)) for row in chunks], dtype=np.int64)
    frames = np.array([sum(c < cut.chunks for c in row) for row in chunks], dtype=np.int64)
    sent, known = random.binomial(blocks, d), random.binomial(blocks, u)
    own = random.binomial(known, alone)
    arriving = random.binomial(np.multiply(full, copies), d)
    returned = copies * union - random.binomial(copies * union, alone)
    there = np.where(np.array(full) > 0, copies, 0)
    columns = [x * job.block for x in (blocks, sent, known - own, own)] + [frames]
    columns += [arriving * job.block, returned * job.block, there]
    return arriving, zip(*(column.tolist() for column in columns))


# --- Servers ----------------------------------------------------------------------------------------


class Clock:
    """Simulated time and what happens when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0  # events of the same time keep their order

    def at(self, time: float, event: Callable[[], None]) -> None:
        """Have ``event`` called at ``time``."""
        self._count += 1
        heapq.heappush(self._events, (time, self._count, event))

    def run(self) -> None:
        """Call all events in order."""
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()


class Threads:
    """The threads of a rank or shard: they take its tasks in the order in which those come."""

    def __init__(self, cores: Cores, count: int) -> None:
        self.idle = count
        self.tasks: deque[tuple[float, Callable[[], None]]] = deque()
        self.listed = False  # at the cores, as one that could run
        self._cores = cores

    def submit(self, seconds: float, done: Callable[[], None]) -> None:
        """Have a task of ``seconds`` done, and ``done`` called after it."""
        self.tasks.append((seconds, done))
        self._cores.offer(self)


class Cores:
    """Cores that run threads by turns, a task at a time."""

    def __init__(self, clock: Clock, count: int, speed: float = 1.0) -> None:
        self.busy_seconds = 0.0
        self.count = count
        self.speed = speed
        self._clock = clock
        self._free = count
        self._ready: deque[Threads] = deque()

    def offer(self, threads: Threads) -> None:
        """Run a task of ``threads`` as soon as a core is free."""
        if threads.tasks and threads.idle and not threads.listed:
            threads.listed = True
            self._ready.append(threads)
        while self._free and self._ready:
            self._start(self._ready.popleft())

    def _start(self, threads: Threads) -> None:
        threads.listed = False
        threads.idle -= 1
        self._free -= 1
        seconds, done = threads.tasks.popleft()
        seconds /= self.speed
        self.busy_seconds += seconds
        self._clock.at(self._clock.now + seconds, partial(self._end, threads, done))
        if threads.tasks and threads.idle:
            threads.listed = True
            self._ready.append(threads)

    def _end(self, threads: Threads, done: Callable[[], None]) -> None:
        threads.idle += 1
        self._free += 1
        done()
        self.offer(threads)


class Downlink:
    """The receiving direction of a link: first come, first served."""

    def __init__(self, clock: Clock, rate: float) -> None:
        self.rate = rate
        self.busy_seconds = 0.0
        self.bytes = 0.0
        self._clock = clock
        self._free_at = 0.0

    def arrive(self, size: float, done: Optional[Callable[[], None]]) -> None:
        """Take in ``size`` bytes whose first is here, and call ``done`` when the last is."""
        self.bytes += size
        self.busy_seconds += size / self.rate
        self._free_at = max(self._free_at, self._clock.now) + size / self.rate
        if done is not None:
            self._clock.at(self._free_at, done)


class Parcel(NamedTuple):
    """A frame on its way. Folded, one that is sent may stand for several, or for none, that arrive."""

    size: float
    sent: Optional[Callable[[], None]]
    to: Downlink
    arrivals: int
    size_there: float  # of each
    arrived: Optional[Callable[[], None]]


class Uplink:
    """The sending direction of a link: connections take turns, a frame each, as TCP streams share a link."""

    def __init__(self, clock: Clock, rate: float, latency: float) -> None:
        self.busy_seconds = 0.0
        self.bytes = 0.0
        self._clock = clock
        self._rate = rate
        self._latency = latency
        self._queues: dict[int, deque[Parcel]] = {}
        self._waiting: list[int] = []  # connections with parcels, ascending
        self._turn = 0
        self._busy = False

    def push(self, connection: int, parcel: Parcel) -> None:
        """Send ``parcel``, a part at each of the connection's turns."""
        queue = self._queues.setdefault(connection, deque())
        if not queue:
            insort(self._waiting, connection)
        parts = max(1, math.ceil(max(parcel.size, parcel.size_there) / BURST_BYTES))
        part = Parcel(parcel.size / parts, None, parcel.to, parcel.arrivals, parcel.size_there / parts, None)
        queue.extend([part] * (parts - 1))
        queue.append(part._replace(sent=parcel.sent, arrived=parcel.arrived))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if not self._busy:
            return
        place = bisect_left(self._waiting, self._turn)
        if place == len(self._waiting):
            place, self._turn = 0, 0
        connection = self._waiting[place]
        # The turn moves on by one, whoever was served: else all ranks would follow each other from shard to shard.
        self._turn = self._turn + 1 if self._turn < connection else connection + 1
        queue = self._queues[connection]
        parcel = queue.popleft()
        if not queue:
            del self._waiting[place]
        self._send(parcel)

    def _send(self, parcel: Parcel) -> None:
        start = self._clock.now
        end = start + parcel.size / self._rate
        self.bytes += parcel.size
        self.busy_seconds += end - start
        # Packets do not wait for the frame's last one; but no frame is there before it was sent.
        first = max(start, end - parcel.size_there / parcel.to.rate)
        for _ in range(parcel.arrivals):
            self._clock.at(first + self._latency, partial(parcel.to.arrive, parcel.size_there, parcel.arrived))
        self._clock.at(end, partial(self._sent, parcel))

    def _sent(self, parcel: Parcel) -> None:
        if parcel.sent is not None:
            parcel.sent()
        self._next()


# --- The engine ---------------------------------------------------------------------------------------


class Host(NamedTuple):
    """Where ranks or shards live."""

    cores: Cores
    rates: HostRates
    up: Uplink
    down: Downlink


class Worker(NamedTuple):
    """A rank, or a dedicated shard: what has threads of its own."""

    host: Host
    threads: Threads


class Shard:
    """The state of a shard."""

    def __init__(self, at: Worker, sums: list[Sum], ring: int, cache: float) -> None:
        self.threads, self.host = at.threads, at.host
        self.sums = sums
        self.cache = cache
        self.flows: list[Flow] = []
        self.next = 0
        self.missing = [0] * len(sums)  # contributions
        self.unsent = [0] * len(sums)
        self.room = ring  # for results
        self.held = 0  # bytes of contributions and results
        self.peak = 0

    def hold(self, size: int) -> None:
        """Count bytes that are put into the slot memory."""
        self.held += size
        self.peak = max(self.peak, self.held)


class Flow:
    """The chunks of one rank for one shard."""

    def __init__(self, at: Worker, shard: Shard, turns: tuple[int, int], rounds: list[Round]) -> None:
        self.threads, self.host = at.threads, at.host
        self.shard = shard
        self.up_turn, self.back_turn = turns
        self.rounds = rounds
        self.next = 0
        self.credited = 0
        self.in_flight = 0  # bytes
        self.queued = 0  # chunks that wait for a core
        self.missing = [max(1, row.frames) for row in rounds]  # results
        for number, row in enumerate(rounds):
            shard.missing[number] += row.shard_frames


class Model:
    """One allreduce on given hardware."""

    def __init__(self, system: System, job: Job, folded: bool) -> None:
        self.clock = Clock()
        self._system, self._job, self._folded = system, job, folded
        self._cut = cut_job(job)
        self._cards = cards(system, job)
        traffic = draw_folded(job, self._cut, self._cards) if folded else draw_pairs(job, self._cut)
        self.hosts: dict[str, list[Host]] = {}
        self._make_hosts()
        self._make_flows(traffic)
        bitmap = -(-self._cut.chunk_blocks // 8)
        self._heads = CONTRIBUTION_HEAD_BYTES + bitmap, RESULT_HEAD_BYTES + 2 * bitmap
        # Several shards at the end of a flow have the windows of all.
        self._window = self._cut.window * (max(1, self._cards // job.ranks) if folded else 1)

    # -- set-up --

    def _add_host(self, kind: str, cores: Cores, rates: HostRates, rate: float) -> None:
        up, down = Uplink(self.clock, rate, self._system.latency), Downlink(self.clock, rate)
        self.hosts.setdefault(kind, []).append(Host(cores, rates, up, down))

    def _make_hosts(self) -> None:
        system, job = self._system, self._job
        shared = system.shared_cores
        # Folded, a rank has its share of the cores.
        speed = min(1.0, shared / (job.ranks * system.threads)) if shared and self._folded else 1.0
        machine = Cores(self.clock, shared) if shared and not self._folded else None
        for _ in range(1 if self._folded else job.ranks):
            cores = machine or Cores(self.clock, system.threads, speed)
            self._add_host("rank", cores, system.rates, system.rate)
        for _ in range(0 if job.embedded else 1 if self._folded else self._cards):
            cores = Cores(self.clock, system.card_shards)
            self._add_host("shard", cores, system.card_rates, system.card_rate)

    def _make_flows(self, traffic: Traffic) -> None:
        system, job, cut = self._system, self._job, self._cut
        ranks = [Worker(host, Threads(host.cores, system.threads)) for host in self.hosts["rank"]]
        cache = system.cache / (job.ranks if system.shared_cores else 1)
        shards = {}
        for number, sums in traffic.sums.items():
            if job.embedded:
                shards[number] = Shard(ranks[number], sums, cut.ring, cache)
            else:
                host = self.hosts["shard"][number % self._cards]
                share = system.card_cache / system.card_shards
                shards[number] = Shard(Worker(host, Threads(host.cores, 1)), sums, cut.ring, share)
        self.shards = list(shards.values())
        self.flows = []
        for (rank, number), rounds in sorted(traffic.flows.items()):
            # Folded, the flow to a host is what host 0 gets.
            shard = shards[number - number % self._cards] if self._folded else shards[number]
            # Everybody begins at another peer; an embedded shard's results take turns with its rank's contributions.
            there, back = (number - rank) % cut.shards, (rank - number) % job.ranks
            if self._folded:
                back = number % self._cards
            kinds = 2 if job.embedded else system.card_shards
            kind = 1 if job.embedded else number // self._cards
            turns = (2 * there if job.embedded else there), kinds * back + kind
            flow = Flow(ranks[rank], shard, turns, rounds)
            self.flows.append(flow)
            shard.flows.append(flow)

    # -- what happens --

    def run(self) -> None:
        """Do the allreduce.

        Raises
        ------
        RuntimeError
            When it does not end, which is a mistake of the model.
        """
        for flow in self.flows:
            self._produce(flow)
        for shard in self.shards:
            self._sum(shard)
        self.clock.run()
        if any(f.credited != len(f.rounds) for f in self.flows) or any(s.held for s in self.shards):
            raise RuntimeError("the simulated operation does not end")

    def _produce(self, flow: Flow) -> None:
        """Scan and send as the window admits, but no more than the engine does before it looks at other things."""
        rates = flow.host.rates
        while flow.next < len(flow.rounds) and flow.queued < CHUNKS_PER_TURN:
            number, row = flow.next, flow.rounds[flow.next]
            if flow.in_flight + row.sent > self._window or number - flow.credited >= MAX_CHUNKS_IN_FLIGHT:
                return
            flow.next += 1
            flow.queued += 1
            flow.in_flight += row.sent
            seconds = rates.scan_seconds(row.chunk, row.sent) + rates.send_seconds(row.sent, row.frames)
            seconds += rates.run_seconds(row.sent / self._job.block, row.chunk / self._job.block)
            flow.threads.submit(seconds, partial(self._produced, flow, number))

    def _produced(self, flow: Flow, number: int) -> None:
        flow.queued -= 1
        row, head = flow.rounds[number], self._heads[0]
        size, size_there = _frame(row.sent, row.frames, head), _frame(row.arriving, row.shard_frames, head)
        arrived = partial(self._contribution_arrived, flow, number)
        for i in range(max(1, row.frames)):
            arrivals = row.shard_frames if i == number % max(1, row.frames) else 0
            parcel = Parcel(size, _nothing, flow.shard.host.down, arrivals, size_there, arrived)
            flow.host.up.push(flow.up_turn, parcel)
        if flow.queued == 0:
            self._produce(flow)

    def _contribution_arrived(self, flow: Flow, number: int) -> None:
        shard, row = flow.shard, flow.rounds[number]
        payload = row.arriving // row.shard_frames
        shard.hold(payload)
        seconds = shard.host.rates.receive_seconds(payload, 1)
        shard.threads.submit(seconds, partial(self._contribution_taken, flow, number))

    def _contribution_taken(self, flow: Flow, number: int) -> None:
        flow.shard.missing[number] -= 1
        self._sum(flow.shard)

    def _sum(self, shard: Shard) -> None:
        """Sum the chunks for which all is there, as far as there is room for the results."""
        rates = shard.host.rates
        while shard.next < len(shard.sums) and shard.missing[shard.next] == 0:
            number, row = shard.next, shard.sums[shard.next]
            if row.union > shard.room:
                return
            shard.next += 1
            shard.room -= row.union
            shard.hold(row.union)
            seconds = row.added / (rates.add if shard.held <= shard.cache else rates.add_uncached)
            if self._job.embedded:  # its rank's own chunk: scan it, and write the result
                seconds += rates.scan_seconds(row.chunk, row.local)
                seconds += row.union / rates.copy + (row.chunk - row.union) / rates.fill
            shard.threads.submit(seconds, partial(self._summed, shard, number))

    def _summed(self, shard: Shard, number: int) -> None:
        for flow in shard.flows:
            part = flow.rounds[number]
            shard.held -= part.arriving // part.shard_frames * part.shard_frames
            shard.unsent[number] += part.shard_frames
            seconds = shard.host.rates.send_seconds(part.returned // part.shard_frames, 1)
            for i in range(part.shard_frames):
                shard.threads.submit(seconds, partial(self._result_ready, flow, number, i))
        if not shard.flows:
            self._release(shard, number)

    def _result_ready(self, flow: Flow, number: int, copy: int) -> None:
        row, head = flow.rounds[number], self._heads[1]
        size, size_there = _frame(row.returned, row.shard_frames, head), _frame(row.taken, row.frames, head)
        sent, arrived = partial(self._result_sent, flow.shard, number), partial(self._result_arrived, flow, number)
        arrivals = max(1, row.frames) if copy == number % row.shard_frames else 0
        flow.shard.host.up.push(flow.back_turn, Parcel(size, sent, flow.host.down, arrivals, size_there, arrived))

    def _result_sent(self, shard: Shard, number: int) -> None:
        shard.unsent[number] -= 1
        if shard.unsent[number] == 0:
            self._release(shard, number)

    def _release(self, shard: Shard, number: int) -> None:
        shard.room += shard.sums[number].union
        shard.held -= shard.sums[number].union
        self._sum(shard)

    def _result_arrived(self, flow: Flow, number: int) -> None:
        row, rates = flow.rounds[number], flow.host.rates
        seconds = rates.receive_seconds(row.taken, row.frames)
        seconds += rates.run_seconds(row.taken / self._job.block, row.chunk / self._job.block)
        seconds += row.own / rates.copy + (row.chunk - row.taken - row.own) / rates.fill
        flow.threads.submit(seconds / max(1, row.frames), partial(self._result_taken, flow, number))

    def _result_taken(self, flow: Flow, number: int) -> None:
        flow.missing[number] -= 1
        if flow.missing[number] != 0:
            return
        flow.in_flight -= flow.rounds[number].sent
        flow.credited += 1
        self._produce(flow)

    # -- what was found --

    def outcome(self) -> Outcome:
        """Return what :meth:`run` found."""
        seconds = self.clock.now
        busy: dict[str, float] = {}
        for kind, hosts in self.hosts.items():
            busy[f"{kind} link up"] = _share(max(h.up.busy_seconds for h in hosts), seconds)
            busy[f"{kind} link down"] = _share(max(h.down.busy_seconds for h in hosts), seconds)
            busy[f"{kind} cores"] = _share(max(h.cores.busy_seconds / h.cores.count for h in hosts), seconds)
        busiest = max(busy, key=lambda name: busy[name])
        ranks = self.hosts["rank"]
        shards = self.hosts.get("shard", [])
        return Outcome(
            seconds=seconds,
            busy=busy,
            bottleneck=busiest if busy[busiest] >= BUSY_ENOUGH else WAITING,
            slot_memory=self._cut.rings * self._cut.ring,
            slot_peak=max(s.peak for s in self.shards),
            rank_sent=round(max(h.up.bytes for h in ranks)),
            rank_received=round(max(h.down.bytes for h in ranks)),
            shard_sent=round(max((h.up.bytes for h in shards), default=0)),
            shard_received=round(max((h.down.bytes for h in shards), default=0)),
            core_seconds=self._core_seconds(),
        )

    def _core_seconds(self) -> float:
        total = 0.0
        for kind, hosts in self.hosts.items():
            alike = (self._job.ranks if kind == "rank" else self._cards) if self._folded else 1
            # The same cores where ranks share them.
            total += alike * sum(c.busy_seconds * c.speed for c in {id(h.cores): h.cores for h in hosts}.values())
        return total


def _frame(payload: int, frames: int, head: int) -> int:
    """Return the bytes of each of ``frames`` that share ``payload``."""
    return payload // frames + head if frames else 0


def _nothing() -> None:
    pass


def _share(busy: float, seconds: float) -> float:
    return busy / seconds if seconds else 0.0


def can_fold(system: System, job: Job) -> bool:
    """Whether all hosts of shards, and all ranks, are alike."""
    hosts = cards(system, job)
    return job.ranks % hosts == 0 or hosts % job.ranks == 0


def simulate(system: System, job: Job, folded: Optional[bool] = None) -> Outcome:
    """Simulate one allreduce.

    Parameters
    ----------
    system, job
        The hardware and the work.
    folded
        Whether one rank and one shard stand for all. Not given: from 9 ranks on, where that is possible.

    Raises
    ------
    ValueError
        When the job cannot be cut, or not be folded.
    """
    if folded is None:
        folded = job.ranks > MAX_UNFOLDED_RANKS and can_fold(system, job)
    if folded and not can_fold(system, job):
        raise ValueError(f"{job.ranks} ranks and {cards(system, job)} cards: none is a multiple of the other")
    model = Model(system, job, folded)
    model.run()
    return model.outcome()


# --- Tables ---------------------------------------------------------------------------------------------


def scaling_table(
    ranks: Sequence[int] = (16, 64, 256, 1024),
    gbits: Sequence[float] = (10, 25, 100, 400),
    densities: Sequence[float] = (1.0, 0.1, 0.01),
    placement: str = "random",
    ranks_per_card: Sequence[int] = (0, 1, 4),
    size: int = 100 * MIB,
    offload: bool = False,
) -> list[Row]:
    """Return how the time grows with ranks and links.

    Parameters
    ----------
    ranks, gbits, densities, placement, size
        The jobs, and the rate of all links in Gbit/s.
    ranks_per_card
        0: embedded shards; 1: as many cards as ranks; 4: a quarter of that.
    offload
        Whether adapters move the bytes (:func:`offloaded`), instead of the kernel's TCP.
    """
    rows = []
    for count in ranks:
        for gbit in gbits:
            for each in ranks_per_card:
                system = _table_system(gbit, offload)
                shards = count // each * system.card_shards if each else 0
                for density in densities:
                    job = Job(size, count, shards, density, placement)
                    rows.append({**_describe(system, job), **_result(system, job)})
    return rows


def memory_table(
    ranks: Sequence[int] = (2, 8, 32, 128, 512, 1024),
    per_peer: Sequence[int] = (512 * KIB, 256 * KIB, 128 * KIB, 64 * KIB, 32 * KIB, 16 * KIB),
    densities: Sequence[float] = (1.0, 0.1),
    gbit: float = 25,
    ranks_per_card: int = 0,
    size: int = 100 * MIB,
    offload: bool = False,
) -> list[Row]:
    """Return how the time depends on the slot memory, in bytes for each ring; chunk and window follow from it."""
    rows = []
    system = _table_system(gbit, offload)
    for count in ranks:
        if count < ranks_per_card:
            continue
        shards = count // ranks_per_card * system.card_shards if ranks_per_card else 0
        for ring in per_peer:
            for density in densities:
                job = Job(size, count, shards, density)
                job = replace(job, slot_memory=ring * cut_job(job).rings)
                cut = cut_job(job)
                chunk = {"ring KiB": ring // KIB, "chunk KiB": cut.chunk_blocks * job.block / KIB}
                rows.append({**_describe(system, job), **chunk, "window KiB": cut.window / KIB, **_result(system, job)})
    return rows


def window_table(
    ranks: Sequence[int] = (2, 8, 64, 1024),
    chunks: Sequence[int] = (16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB),
    windows: Sequence[int] = (64 * KIB, 128 * KIB, 384 * KIB, 1536 * KIB),
    density: float = 1.0,
    gbit: float = 100,
    size: int = 100 * MIB,
    offload: bool = False,
) -> list[Row]:
    """Return how the time depends on chunk and window, each given in bytes, where a chunk fits its window."""
    system = _table_system(gbit, offload)
    rows = []
    for count in ranks:
        for chunk in chunks:
            for window in windows:
                if chunk > window:
                    continue
                job = Job(size, count, density=density, chunk=chunk, window=window)
                given: Row = {"chunk KiB": chunk // KIB, "window KiB": window // KIB}
                rows.append({**_describe(system, job), **given, **_result(system, job)})
    return rows


def validation_table(measured: Iterable[Mapping[str, Any]], system: System) -> list[Row]:
    """Return measured times beside simulated ones.

    Parameters
    ----------
    measured
        Each with ``ranks``, ``density``, ``seconds`` and ``rate_bits``, and where they are not the defaults of
        :class:`Job` and of ``system``: ``size``, ``shards``, ``placement``, ``block`` (bytes), ``slot_memory``,
        ``cores`` (of all ranks together), ``rates`` (a mapping of some of :class:`HostRates`). Other keys are ignored.
    system
        The machine, apart from what each row says.
    """
    rows: list[Row] = []
    names = ("ranks", "density", "size", "shards", "placement", "block", "slot_memory")
    for one in measured:
        job = Job(**{name: one[name] for name in names if name in one})
        rates = replace(system.rates, **one.get("rates", {}))
        cores = one.get("cores", system.shared_cores)
        machine = replace(system, rate_bits=one["rate_bits"], shared_cores=cores, rates=rates)
        found = simulate(machine, job)
        error = 100 * (found.seconds / one["seconds"] - 1)
        times: Row = {"measured ms": 1e3 * one["seconds"], "simulated ms": 1e3 * found.seconds, "error %": error}
        rows.append({**_describe(machine, job), **times, "bottleneck": found.bottleneck})
    return rows


def read_measurements(path: Path) -> list[dict[str, Any]]:
    """Return what the engine took in a file that ``omniccl bench allreduce --json`` wrote.

    Returns
    -------
    measured
        As :func:`validation_table` takes it.
    """
    results = json.loads(path.read_text())
    measured = []
    for row in results["rows"]:
        case = row["case"]
        if row["mode"] != "omniccl" or row["median"] is None:
            continue
        if case["dtype"] != "float32":
            raise ValueError(f"{path} has {case['dtype']}; the simulation knows float32")
        measured.append(
            {
                "ranks": case["ranks"],
                "density": case["density"],
                "seconds": row["median"],
                "rate_bits": results["link_bytes_per_second"] * 8,
                "size": case["size"],
                "shards": case["aggregators"],
                "placement": case["placement"],
                "block": case["block_size"] * 4,
                "cores": results["machine"]["cores"],
                "rates": {name: results["host_rates"][name] for name in ("scan", "fill", "copy")},
            }
        )
    return measured


def _table_system(gbit: float, offload: bool) -> System:
    system = System(rate_bits=gbit * 1e9, latency=10e-6)
    if not offload:
        return system
    return replace(system, rates=offloaded(system.rates), card_rates=offloaded(system.card_rates))


def _describe(system: System, job: Job) -> Row:
    shards = "embedded" if job.embedded else f"{cards(system, job)} cards"
    return {
        "ranks": job.ranks,
        "Gbit/s": system.rate_bits / 1e9,
        "shards": shards,
        "density %": 100 * job.density,
        "placement": job.placement,
    }


def _result(system: System, job: Job) -> Row:
    found = simulate(system, job)
    per_host = 1 if job.embedded else system.card_shards
    return {
        "ms": 1e3 * found.seconds,
        "link limit ms": 1e3 * link_limit(system, job),
        "bottleneck": found.bottleneck,
        "slot memory MiB": per_host * found.slot_memory / MIB,
        "of it used MiB": per_host * found.slot_peak / MIB,
    }


def _text(value: Union[float, str]) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def markdown(rows: Sequence[Row]) -> str:
    """Return ``rows`` as a table, with a column for each key."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names)] + [[_text(row.get(name, "")) for name in names] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def pivot(rows: Sequence[Row], by: str) -> list[Row]:
    """Return one row for all values of the column ``by``: milliseconds and the bottleneck of each."""
    left_out = {by, "ms", "link limit ms", "bottleneck", "slot memory MiB", "of it used MiB", "placement"}
    if by == "density %":
        left_out.remove("slot memory MiB")
    cases: dict[tuple[Union[int, float, str], ...], Row] = {}
    for row in rows:
        case = {name: value for name, value in row.items() if name not in left_out}
        cell = f"{_text(row['ms'])} ({row['bottleneck']})"
        cases.setdefault(tuple(case.values()), case)[f"{by} {_text(row[by])}"] = cell
    return list(cases.values())
