"""The hook in Horovod: made once, at the moment ``horovod.tensorflow`` has been imported.

Not at the first ``compress()``: a rank that has joined runs no compressor, and it must take part in
what the others do. Not at the import of this package either: a program that never imports Horovod
pays nothing for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from dataclasses import dataclass
from typing import Any, Optional

from wrapt import register_post_import_hook

from . import adapter
from .config import Config
from .errors import AdapterError, ForkedProcessError, NotHookedError, OmnicclError
from .version import __version__

_HOROVOD = "horovod.tensorflow"


@dataclass(frozen=True)
class HookState:
    """Whether Horovod is hooked. Without module and failure it has not been imported yet.

    Attributes
    ----------
    config
        The settings at import.
    module
        The native adapter, if Horovod is hooked.
    classes
        The classes of Horovod whose operation is hooked.
    failure
        Why it is not hooked, if it was tried.
    """

    config: Config
    module: Optional[Any] = None
    classes: tuple[str, ...] = ()
    failure: Optional[OmnicclError] = None


_state: Optional[HookState] = None
_forked_while_initialized = False


def install() -> None:
    """Read the settings, and hook Horovod now if it has been imported, else as soon as it is.

    A second call before that reads the settings again.

    Raises
    ------
    SettingError
        For a setting that is not allowed.
    """
    global _state
    if _state is None:
        _state = HookState(Config.from_env())
        register_post_import_hook(_hook_horovod, _HOROVOD)
    elif _state.module is None and _state.failure is None:
        _state = HookState(Config.from_env())


def state() -> HookState:
    """Return the state of the hook."""
    assert _state is not None  # the import of the package calls install()
    return _state


def state_with_horovod() -> HookState:
    """Import Horovod, which hooks it, and return the state then.

    Raises
    ------
    OmnicclError
        When Horovod cannot be imported or hooked; the message says what to do.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="hvd_omniccl: ")  # raised below
            importlib.import_module(_HOROVOD)
    except ImportError as error:
        raise adapter.no_horovod(error) from error
    current = state()
    if current.failure is not None:
        raise current.failure
    return current


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
        reason = current.failure or _why_not_imported()
        what = "OMNICCL_INTERCEPT=all" if current.config.intercept == "all" else "compression=omniccl"
        raise NotHookedError(f"{what} cannot work, Horovod is not hooked: {reason}")


def _why_not_imported() -> str:
    for package in ("tensorflow", "horovod"):
        if importlib.util.find_spec(package) is None:
            return f"the package {package} is not installed (pip install hvd_omniccl[tensorflow])"
    return f"{_HOROVOD} is not imported. Import it before the first reduction"


def _hook_horovod(_: Any) -> None:
    global _state
    config = state().config
    try:
        # First, and so also without a hook: the names that a rank gives to its tensors must be
        # those of the other ranks, or Horovod waits for ever.
        _wrap_horovod()
        module = adapter.load(config)
        _state = HookState(config, module, _attach(module, config))
    except Exception as error:
        # Any error: we are inside of the import of Horovod, which must not fail for a program
        # that does not use us. compress() raises it for one that does.
        failure = error if isinstance(error, AdapterError) else AdapterError(f"{type(error).__name__}: {error}")
        _state = HookState(config, failure=failure)
        warnings.warn(f"hvd_omniccl: Horovod is not hooked: {failure}", stacklevel=2)
        return
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _wrap_horovod() -> None:
    from . import tensorflow as tensorflow_side  # imports Horovod and TensorFlow

    tensorflow_side.wrap_horovod()


def _attach(module: Any, config: Config) -> tuple[str, ...]:
    """Hook Horovod's classes; returns the names of those that are."""
    report = module.attach(
        str(adapter.horovod_library()),
        intercept=config.intercept,
        block_elements=config.block_size or 0,
        slot_memory_bytes=config.slot_memory or 0,
        aggregators=list(config.aggregators),
        secret_file=str(config.secret_file or ""),
        transport=config.transport,
        congestion_control=config.congestion_control,
        interface=config.interface or "",
        first_port=config.port_range[0],
        last_port=config.port_range[1],
        payload_checksum=config.checksum,
        huge_pages=config.huge_pages,
        timeout_seconds=config.timeout,
        connect_timeout_seconds=config.connect_timeout,
        kernels=config.kernels,
        package_version=__version__,
    )
    classes = tuple(entry["class_name"] for entry in report if entry["attached"])
    if not classes:
        reasons = "; ".join(f"{entry['class_name']}: {entry['reason']}" for entry in report)
        raise AdapterError(f"no allreduce of Horovod could be hooked ({reasons})")
    return classes


def _after_fork_in_child() -> None:
    global _forked_while_initialized
    import horovod.tensorflow as hvd

    _forked_while_initialized = _forked_while_initialized or bool(hvd.is_initialized())
