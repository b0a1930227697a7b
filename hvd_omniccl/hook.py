"""The hook in Horovod: made once, when the package is imported.

At import and not at the first ``compress()``: a rank that has joined runs no compressor, and it must
take part in what the others do.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from dataclasses import dataclass
from typing import Any, Optional

from . import adapter
from .config import Config
from .errors import AdapterError, ForkedProcessError, NotHookedError, OmnicclError
from .version import __version__


@dataclass(frozen=True)
class HookState:
    """Whether Horovod is hooked.

    Attributes
    ----------
    config
        The settings at import.
    module
        The native adapter, if Horovod is hooked.
    failure
        Why it is not, if it should be.
    """

    config: Config
    module: Optional[Any] = None
    failure: Optional[OmnicclError] = None


_state: Optional[HookState] = None
_forked_while_initialized = False


def state() -> HookState:
    """Return the state of the hook, making it at the first call."""
    global _state
    if _state is None:
        _state = _hook(Config.from_env())
    return _state


def require() -> None:
    """Raise unless tensors that are marked now will reach the engine.

    Raises
    ------
    ForkedProcessError
        In a process that was forked while Horovod was initialised.
    NotHookedError
        When Horovod is not hooked, unless ``OMNICCL_INTERCEPT=off``.
    """
    if _forked_while_initialized:
        raise ForkedProcessError(
            "this process was forked after hvd.init(): Horovod's thread and our connections stayed "
            "in the parent. Start it with multiprocessing's 'spawn' method, or reduce in the parent"
        )
    current = state()
    if current.module is None and current.config.intercept != "off":
        raise NotHookedError(f"compression=omniccl cannot work, Horovod is not hooked: {current.failure}")


def _hook(config: Config) -> HookState:
    for package in ("tensorflow", "horovod"):
        if importlib.util.find_spec(package) is None:
            reason = f"the package {package} is not installed (pip install hvd_omniccl[tensorflow])"
            return HookState(config, failure=NotHookedError(reason))
    try:
        module = adapter.load(config)
        _attach(module, config)
    except AdapterError as failure:
        # compress() raises it. A job that does not use it must not fail for it here.
        warnings.warn(f"hvd_omniccl: Horovod is not hooked: {failure}", stacklevel=2)
        return HookState(config, failure=failure)
    finally:
        # Also without a hook: the names that a rank gives to its tensors must be those of the
        # other ranks, or Horovod waits for ever.
        _wrap_horovod()
    os.register_at_fork(after_in_child=_after_fork_in_child)
    return HookState(config, module=module)


def _wrap_horovod() -> None:
    try:
        from . import tensorflow as tensorflow_side
    except ImportError:  # Horovod without TensorFlow support: adapter.load() has said so
        return
    tensorflow_side.wrap_horovod()


def _attach(module: Any, config: Config) -> None:
    report = module.attach(
        str(adapter.horovod_library()),
        intercept=config.intercept,
        block_elements=config.block_size or 0,
        slot_memory_bytes=config.slot_memory or 0,
        aggregators=list(config.aggregators),
        secret_file=str(config.secret_file or ""),
        interface=config.interface or "",
        first_port=config.port_range[0],
        last_port=config.port_range[1],
        payload_checksum=config.checksum,
        timeout_seconds=config.timeout,
        connect_timeout_seconds=config.connect_timeout,
        kernels=config.kernels,
        package_version=__version__,
    )
    if not any(entry["attached"] for entry in report):
        reasons = "; ".join(f"{entry['class_name']}: {entry['reason']}" for entry in report)
        raise AdapterError(f"no allreduce of Horovod could be hooked ({reasons})")


def _after_fork_in_child() -> None:
    global _forked_while_initialized
    import horovod.tensorflow as hvd

    _forked_while_initialized = _forked_while_initialized or bool(hvd.is_initialized())
