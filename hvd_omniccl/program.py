"""Runs a Python program in this process the way ``python`` does."""

from __future__ import annotations

import io
import os
import runpy
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Callable, Optional

_ExceptHook = Callable[[type[BaseException], BaseException, Optional[TracebackType]], object]


@dataclass(frozen=True)
class Program:
    """A program and its arguments.

    Attributes
    ----------
    target
        The path of a script (or of a folder or zip file with a ``__main__.py``), or the name of a module.
    is_module
        Whether it is a module, as with ``python -m``.
    arguments
        What the program finds behind ``sys.argv[0]``.
    """

    target: str
    is_module: bool
    arguments: Sequence[str]

    def run(self) -> None:
        """Run it as ``__main__``.

        Whatever it raises passes through, so that the interpreter ends as with the program alone:
        with its exit status, its traceback, or its signal.
        """
        sys.argv = [self.target, *self.arguments]
        sys.excepthook = _without_our_frames(sys.excepthook)
        if not _is_path_safe():
            sys.path[0] = self._folder()
        if self.is_module:
            runpy.run_module(self.target, run_name="__main__", alter_sys=True)
        elif Path(self.target).is_dir() or zipfile.is_zipfile(self.target):
            runpy.run_path(self.target, run_name="__main__")
        else:
            _run_source(self.target)

    def _folder(self) -> str:
        """Return what ``python`` puts at the front of ``sys.path``."""
        if self.is_module:
            return str(Path.cwd())
        path = Path(os.path.realpath(self.target))
        return str(path if path.is_dir() else path.parent)


def _is_path_safe() -> bool:
    """Return whether the interpreter was told to put nothing at the front of ``sys.path``."""
    return bool(getattr(sys.flags, "safe_path", sys.flags.isolated))


def _run_source(script: str) -> None:
    """Run a file of Python source.

    ``runpy.run_path`` would change ``sys.argv[0]`` or leave ``__file__`` relative, and take
    ``sys.modules["__main__"]`` away before functions at exit run.
    """
    path = str(Path(script).absolute())
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = SourceFileLoader("__main__", path)
    sys.modules["__main__"] = module
    with io.open_code(path) as source:
        code = compile(source.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def _without_our_frames(show: _ExceptHook) -> _ExceptHook:
    """Return ``show`` for a traceback that begins in the program."""

    def excepthook(kind: type[BaseException], error: BaseException, traceback: Optional[TracebackType]) -> None:
        traceback = _in_program(traceback)
        show(kind, error.with_traceback(traceback), traceback)

    return excepthook


def _in_program(traceback: Optional[TracebackType]) -> Optional[TracebackType]:
    """Return the part of a traceback behind the frames of this module and of ``runpy``."""
    rest = traceback
    while rest is not None and _module_of(rest) != __name__:
        rest = rest.tb_next
    if rest is None:  # it does not go through here: the program shows one of its own
        return traceback
    while rest is not None and _module_of(rest) in (__name__, "runpy"):
        rest = rest.tb_next
    return rest


def _module_of(traceback: TracebackType) -> object:
    return traceback.tb_frame.f_globals.get("__name__")
