"""What ``omniccl doctor`` asks: would a job run here, and with what.

A check is a function that returns a :class:`Check` and raises nothing that it can foresee.
"""

from __future__ import annotations

import importlib
import os
import platform
import warnings
from collections.abc import Sequence
from typing import Callable, NamedTuple

from . import adapter, hook
from .config import values_in_force
from .errors import AdapterError, OmnicclError
from .version import __version__


class Check(NamedTuple):
    """What came of one check.

    Attributes
    ----------
    name
        What was looked at.
    status
        ``ok``; ``warn`` when a job runs without it; ``fail`` when none runs.
    detail
        What was found.
    remedy
        What to do; empty if there is nothing to do.
    """

    name: str
    status: str
    detail: str
    remedy: str = ""


def run_checks() -> list[Check]:
    """Return what came of all checks, in the order of :data:`CHECKS`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow is imported below
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="hvd_omniccl: ")  # a check says it
        return [check() for check in CHECKS]


def package() -> Check:
    """Check nothing, but say the versions that always exist."""
    return Check("hvd_omniccl", "ok", f"{__version__}, Python {platform.python_version()}, {platform.machine()}")


def tensorflow() -> Check:
    """Check that TensorFlow can be imported."""
    try:
        import tensorflow as tf
    except ImportError as error:
        return Check("TensorFlow", "fail", str(error), "pip install tensorflow-cpu==2.15.1")
    return Check("TensorFlow", "ok", str(tf.__version__))


def horovod() -> Check:
    """Check that Horovod is there, and is a build that is supported."""
    try:
        build = adapter.inspect_horovod()
    except AdapterError as error:
        return _failure("Horovod", error)
    return Check("Horovod", "ok", f"{build.version} with {', '.join(build.features)}")


def hooked() -> Check:
    """Check the guards of the hook: the adapter is for this version and build, and a class is attached."""
    try:
        state = hook.state_with_horovod()
    except OmnicclError as error:
        return _failure("hook", error)
    path = getattr(state.module, "__file__", "")
    return Check("hook", "ok", f"{', '.join(state.classes)}; built for this Horovod: {path}")


def kernels() -> Check:
    """Check that the kernels that are set exist on this processor."""
    wanted = hook.state().config.kernels
    try:
        native = importlib.import_module("hvd_omniccl._native")
    except ImportError as error:
        return Check("kernels", "warn", f"unknown here ({error}); set is {wanted}", "reinstall hvd_omniccl")
    available = list(native.available_kernels())
    detail = f"{', '.join(available)}; set is {wanted}"
    if wanted != "auto" and wanted not in available:
        return Check("kernels", "fail", detail, "OMNICCL_KERNELS=auto takes the fastest one that there is")
    return Check("kernels", "ok", detail)


def transports() -> Check:
    """Say what can carry the data, and why not the rest."""
    wanted = hook.state().config.transport
    detail = f"tcp between hosts, shm within one; set is {wanted}; verbs is not in this version"
    try:
        os.close(os.memfd_create("omniccl"))
    except OSError as error:
        detail = f"tcp; set is {wanted}; shm has no memory ({error.strerror}); verbs is not in this version"
        return Check("transports", "fail" if wanted == "shm" else "ok", detail, "OMNICCL_TRANSPORT=tcp or auto")
    return Check("transports", "ok", detail)


def aggregators() -> Check:
    """Check that each aggregator that is set answers and accepts the secret."""
    config = hook.state().config
    if not config.aggregators:
        return Check("aggregators", "ok", "none is set: each rank sums a share")
    try:
        native = importlib.import_module("hvd_omniccl._native")
    except ImportError as error:
        return Check("aggregators", "fail", f"cannot be asked ({error})", "reinstall hvd_omniccl")
    found, failed = [], False
    for place in config.aggregators:
        try:
            address = native.probe_aggregator(place, str(config.secret_file), config.connect_timeout)
            found.append(f"{place} accepts the secret at {address}")
        except native.EngineError as error:
            found.append(f"{place}: {error.args[1]}")
            failed = True
    remedy = "start it with: omniccl aggregator --listen HOST:PORT --secret-file FILE" if failed else ""
    return Check("aggregators", "fail" if failed else "ok", "; ".join(found), remedy)


def settings() -> Check:
    """Say which settings are in force, and where they come from."""
    values = values_in_force()
    return Check("settings", "ok", "; ".join(f"{one.name}={one.value} ({one.source})" for one in values))


# A new check is a function above and its place here.
CHECKS: Sequence[Callable[[], Check]] = (
    package,
    tensorflow,
    horovod,
    hooked,
    kernels,
    transports,
    aggregators,
    settings,
)


def _failure(name: str, error: OmnicclError) -> Check:
    """Return the check that failed with an error of ours, whose message ends with what to type."""
    detail, _, remedy = str(error).partition(" Type: ")
    return Check(name, "fail", detail, remedy)
