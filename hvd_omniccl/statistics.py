"""What the engine did in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import hook, indexed_slices


@dataclass(frozen=True)
class Stats:
    """Totals since the process started or :func:`reset_stats`, over all process sets and initialisations.

    Attributes
    ----------
    operations, tensors
        Fused operations that the engine did, and tensors in them.
    bytes_reduced
        Size of those tensors.
    dense_bytes
        What a dense ring allreduce would have sent for them.
    bytes_sent, bytes_received
        To and from other ranks, handshakes and headers included.
    blocks, nonzero_blocks
        Blocks of those tensors, and how many of them were not zero at this rank.
    bytes_copied_send, bytes_copied_receive
        Payload that was copied in user space on its way out and in.
    scan_seconds, wait_seconds, decode_seconds
        Time in the zero test and what belongs to sending; waiting for peers; summing and writing
        results.
    passed_on
        Responses with tensors that were left to Horovod's own operation, by reason.
    indexed_slices
        Calls with ``tf.IndexedSlices``, which Horovod gathers past the compression because
        ``sparse_as_dense`` is off: with ``compression=omniccl``, and with
        ``OMNICCL_INTERCEPT=all`` any. Inside of a ``tf.function`` Python sees one call for each
        time it is traced, not for each step.
    """

    operations: int = 0
    tensors: int = 0
    bytes_reduced: int = 0
    dense_bytes: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    blocks: int = 0
    nonzero_blocks: int = 0
    bytes_copied_send: int = 0
    bytes_copied_receive: int = 0
    scan_seconds: float = 0.0
    wait_seconds: float = 0.0
    decode_seconds: float = 0.0
    passed_on: Mapping[str, int] = field(default_factory=dict)
    indexed_slices: int = 0

    @property
    def density(self) -> float:
        """Share of blocks that were not zero at this rank; 0 when there were none."""
        return self.nonzero_blocks / self.blocks if self.blocks else 0.0


def stats() -> Stats:
    """Return the totals of this process.

    From any thread at any time: before ``hvd.init()`` all are zero, after ``hvd.shutdown()`` they
    stay. A forked child begins again at zero.
    """
    module = hook.state().module
    native = {} if module is None else module.stats()
    return Stats(**native, indexed_slices=indexed_slices.calls())


def reset_stats() -> None:
    """Count from zero again, from any thread at any time.

    An operation that runs meanwhile counts as a whole at its end.
    """
    module = hook.state().module
    if module is not None:
        module.reset_stats()
    indexed_slices.reset()
