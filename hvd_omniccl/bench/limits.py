"""The least time that a case can take: what the links and the host's memory allow.

``d`` is the share of blocks that are not zero at a rank, ``u`` that in the union over the ranks, ``o`` the share that
only one rank has. All come from the input, never from counted bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from .case import Case, Masks


@dataclass(frozen=True)
class Shares:
    """The shares of one case.

    Attributes
    ----------
    own
        ``d`` of each rank.
    union
        ``u``.
    exclusive
        ``o`` of each rank.
    """

    own: tuple[float, ...]
    union: float
    exclusive: tuple[float, ...]

    @classmethod
    def of(cls, masks: Masks) -> Shares:
        """Return the shares of the blocks in ``masks``, an array of shape (ranks, blocks)."""
        owners = masks.sum(axis=0)
        blocks = max(1, masks.shape[1])
        return cls(
            own=tuple(float(mask.sum()) / blocks for mask in masks),
            union=float((owners > 0).sum()) / blocks,
            exclusive=tuple(float((mask & (owners == 1)).sum()) / blocks for mask in masks),
        )


@dataclass(frozen=True)
class HostRates:
    """What one core does alone, in bytes per second, and how many cores there are.

    Attributes
    ----------
    scan
        Finding the blocks that are not zero.
    fill
        Writing zeros past the cache.
    add
        Adding one array to another that is in the cache, counted by the bytes of one of them.
    copy
        Copying into memory.
    cores
        Cores for all ranks together.
    """

    scan: float
    fill: float
    add: float
    copy: float
    cores: int


def busiest_link_bytes(case: Case, shares: Shares) -> float:
    """Return the bytes over the busiest direction of a link.

    With embedded shards each rank sends its blocks to the other shards and the results of its own shard to the other
    ranks: S (N-1)/N (d + u - o) where ranks are alike. A dedicated shard has 1/M of all ranks' blocks on its link.
    """
    returned = [shares.union - exclusive for exclusive in shares.exclusive]
    if case.aggregators:
        at_ranks = max(*shares.own, *returned)
        at_shards = max(sum(shares.own), sum(returned)) / case.aggregators
        return case.size * max(at_ranks, at_shards)
    busiest = 0.0
    for rank in range(case.ranks):
        sent = (case.ranks - 1) * shares.own[rank] + sum(returned) - returned[rank]
        received = sum(shares.own) - shares.own[rank] + (case.ranks - 1) * returned[rank]
        busiest = max(busiest, sent, received)
    return case.size / case.ranks * busiest


def host_seconds(case: Case, shares: Shares, rates: HostRates) -> float:
    """Return the time that all ranks' memory work takes on the cores there are.

    Every input byte is scanned once and every output byte written once; the blocks of the union are summed once.
    """
    scan = case.ranks * case.size / rates.scan
    fill = case.ranks * case.size * (1 - shares.union) / rates.fill
    write = case.ranks * case.size * shares.union / rates.copy
    add = case.size * sum(shares.own) / rates.add
    return (scan + fill + write + add) / min(rates.cores, case.ranks)


def limit_seconds(case: Case, shares: Shares, link_bytes_per_second: float, rates: HostRates) -> tuple[float, str]:
    """Return the larger of both limits, and whether it is the ``link``'s or the ``host``'s."""
    link = busiest_link_bytes(case, shares) / link_bytes_per_second
    host = host_seconds(case, shares, rates)
    return (link, "link") if link >= host else (host, "host")
