"""The programs that are compared: how each is found, and how its ranks are started."""

from __future__ import annotations

import ctypes.util
import importlib.util
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Optional

from .launch import (
    LaunchError,
    RankCommand,
    horovod_rendezvous,
    mpich_command,
    open_mpi_command,
    python_module,
    run_together,
)
from .network import Host

# A rank that computes with more threads takes them from the rank that it waits for: all share this machine's cores.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


@dataclass(frozen=True)
class Plan:
    """What one job of ranks is to do.

    Attributes
    ----------
    cases
        As :meth:`~hvd_omniccl.bench.case.Case.to_json` gives them; all of the same ranks, aggregators and transport.
    ranks
        How many.
    warmups, repetitions
        Reductions of each case before and while they are timed.
    seed
        Of the data.
    hosts
        Where the ranks run; empty for loopback.
    folder
        Shared by the ranks.
    options
        What else the program needs.
    environment
        Added to that of each rank.
    seconds
        Its deadline.
    """

    cases: Sequence[dict[str, Any]]
    ranks: int
    warmups: int
    repetitions: int
    seed: int
    hosts: Sequence[Host]
    folder: Path
    seconds: float
    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """One program that reduces.

    Attributes
    ----------
    name
        What it is called on the command line and in tables.
    module
        The rank's part, in :mod:`hvd_omniccl.bench.peers`.
    modes
        What it times, in turns.
    missing
        Says why it cannot run here, or None.
    start
        Runs all ranks of a plan to their end.
    needs_tensorflow
        Whether its ranks import it.
    ours
        Whether omniccl is in it: dedicated aggregators and transports make no difference to others.
    """

    name: str
    module: str
    modes: tuple[str, ...]
    missing: Callable[[], Optional[str]]
    start: Callable[[Program, Plan], None]
    needs_tensorflow: bool = False
    ours: bool = False


def _write_plan(program: Program, plan: Plan) -> Path:
    path = plan.folder / "plan.json"
    described = {
        "module": program.module,
        "cases": list(plan.cases),
        "ranks": plan.ranks,
        "warmups": plan.warmups,
        "repetitions": plan.repetitions,
        "seed": plan.seed,
        "folder": str(plan.folder),
        "interface": plan.hosts[0].interface if plan.hosts else None,
        "options": {"name": program.name, **plan.options},
    }
    path.write_text(json.dumps(described))
    return path


def _rank_program(program: Program, plan: Plan) -> list[str]:
    return python_module("hvd_omniccl.bench.rank", str(_write_plan(program, plan)))


def _environment(plan: Plan) -> dict[str, str]:
    variables = {**ONE_THREAD, **plan.environment}
    if "aggregators" in plan.options:
        variables["OMNICCL_AGGREGATORS"] = ",".join(plan.options["aggregators"])
        variables["OMNICCL_SECRET_FILE"] = plan.options["secret_file"]
    variables["OMNICCL_TRANSPORT"] = plan.options["transport"]
    variables["OMNICCL_CHECKSUM"] = "on" if plan.options["checksum"] else "off"
    variables["OMNICCL_SLOT_MEMORY"] = str(plan.options["slot_memory"] or "")
    return variables


def _one_by_one(program: Program, plan: Plan, variables: Sequence[dict[str, str]]) -> None:
    command = _rank_program(program, plan)
    run_together(
        [
            RankCommand(
                [*(plan.hosts[rank].prefix if plan.hosts else ()), *command, str(rank)],
                {**_environment(plan), **variables[rank]},
            )
            for rank in range(plan.ranks)
        ],
        plan.seconds,
    )


def _start_alone(program: Program, plan: Plan) -> None:
    _one_by_one(program, plan, [{}] * plan.ranks)


def _start_on_gloo(program: Program, plan: Plan) -> None:
    with horovod_rendezvous(plan.ranks, plan.hosts or None) as variables:
        _one_by_one(program, plan, variables)


def _start_with_gloo(program: Program, plan: Plan) -> None:
    from ..errors import AdapterError
    from .gloo_library import gloo_library

    try:
        library = gloo_library()
    except AdapterError as error:
        raise LaunchError(str(error)) from error
    _start_alone(program, replace(plan, options={**plan.options, "gloo_library": str(library)}))


def _missing_gloo() -> Optional[str]:
    if importlib.util.find_spec("horovod") is None:
        return "Gloo is built from the source of Horovod, which is not installed"
    return None


def _start_on_open_mpi(program: Program, plan: Plan) -> None:
    # Each rank on a host of its own gets its environment from the launcher's shell there.
    environment = {**_environment(plan), "MPI4PY_MPIABI": "openmpi"}
    command = open_mpi_command(_rank_program(program, plan), plan.ranks, plan.folder, plan.hosts or None)
    for name in environment:
        command[1:1] = ["-x", name]
    run_together([RankCommand(command, environment)], plan.seconds)


def _start_on_mpich(program: Program, plan: Plan) -> None:
    # mpi4py looks for the name of MPICH's common binary interface, which Debian's library does not carry.
    (plan.folder / "libmpi.so.12").symlink_to(_mpich_library())
    libraries = os.pathsep.join([str(plan.folder), os.environ.get("LD_LIBRARY_PATH", "")]).strip(os.pathsep)
    environment = {**_environment(plan), "MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": libraries}
    if plan.hosts:
        # It takes hosts of one name for one, and would go through shared memory.
        environment.update(MPIR_CVAR_NOLOCAL="1", UCX_TLS="tcp,self")
    command = mpich_command(_rank_program(program, plan), plan.ranks, plan.folder, plan.hosts or None)
    run_together([RankCommand(command, environment)], plan.seconds)


def _mpich_library() -> Path:
    name = ctypes.util.find_library("mpich")
    candidates = [folder / name for folder in Path("/usr/lib").glob("*-linux-gnu") if name and (folder / name).exists()]
    return candidates[0] if candidates else Path("libmpich.so.12")


def _missing_mpi(launcher: str, package: str) -> Optional[str]:
    if shutil.which(launcher) is None:
        return f"{launcher} is missing: apt-get install {package}"
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is missing: pip install mpi4py"
    return None


def _missing_mpich() -> Optional[str]:
    reason = _missing_mpi("mpiexec.mpich", "mpich")
    if reason is None and ctypes.util.find_library("mpich") is None:
        return "libmpich is missing: apt-get install libmpich12"
    return reason


def _missing_horovod(feature: str) -> Optional[str]:
    from ..adapter import inspect_horovod
    from ..errors import AdapterError

    try:
        build = inspect_horovod()
    except AdapterError as error:
        return str(error)
    if feature not in build.features:
        return f"this Horovod was built without {feature.title()}"
    if feature == "MPI" and shutil.which("mpirun.openmpi") is None:
        return "mpirun.openmpi is missing: apt-get install openmpi-bin"
    return None


def _horovod(name: str, feature: str, start: Callable[[Program, Plan], None]) -> Program:
    modes = (name, f"omniccl in {name}")
    return Program(name, "horovod", modes, lambda: _missing_horovod(feature), start, True, True)


PROGRAMS = (
    Program("omniccl", "engine", ("omniccl",), lambda: None, _start_alone, ours=True),
    Program("gloo", "gloo", ("gloo",), _missing_gloo, _start_with_gloo),
    _horovod("horovod-gloo", "GLOO", _start_on_gloo),
    _horovod("horovod-mpi", "MPI", _start_on_open_mpi),
    Program("openmpi", "mpi", ("openmpi",), lambda: _missing_mpi("mpirun.openmpi", "openmpi-bin"), _start_on_open_mpi),
    Program("mpich", "mpi", ("mpich",), _missing_mpich, _start_on_mpich),
)
