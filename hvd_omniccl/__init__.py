"""Exact block-sparse allreduce for Horovod.

Once the package and ``horovod.tensorflow`` are imported, whichever comes first, Horovod's CPU
allreduce is hooked; ``compression=omniccl`` then marks the tensors that it takes::

    import horovod.tensorflow.keras as hvd
    from hvd_omniccl import omniccl

    opt = hvd.DistributedOptimizer(opt, compression=omniccl, sparse_as_dense=True)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import hook
from .compression import omniccl
from .errors import (
    AdapterError,
    CommunicatorError,
    ForkedProcessError,
    InvalidArgumentError,
    NotHookedError,
    OmnicclError,
    PeerFailureError,
    SettingError,
    UnsupportedDtypeError,
)
from .sockets import tcp_bytes_sent
from .statistics import Stats, reset_stats, stats
from .version import __version__

if TYPE_CHECKING:
    from .communicator import Communicator, Session, available_kernels

__all__ = [
    "AdapterError",
    "Communicator",
    "CommunicatorError",
    "ForkedProcessError",
    "InvalidArgumentError",
    "NotHookedError",
    "OmnicclError",
    "PeerFailureError",
    "Session",
    "SettingError",
    "Stats",
    "UnsupportedDtypeError",
    "__version__",
    "available_kernels",
    "omniccl",
    "reset_stats",
    "stats",
    "tcp_bytes_sent",
]


def __getattr__(name: str) -> Any:
    """Import the communicator at its first use: NumPy, which it brings, takes longer than all the rest."""
    if name in ("Communicator", "Session", "available_kernels"):
        from . import communicator

        return getattr(communicator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


try:
    hook.install()
except SettingError as error:
    # The command `omniccl` has no other moment to say it in one line: its module is inside of this package.
    if Path((sys.argv or [""])[0]).name == "omniccl":
        sys.exit(f"omniccl: {error}")
    raise
