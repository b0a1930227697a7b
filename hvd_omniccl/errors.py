"""What the package raises, one class per thing that a person does about it."""

from __future__ import annotations


class OmnicclError(Exception):
    """The base of all errors of this package."""


class SettingError(OmnicclError, ValueError):
    """A setting (an ``OMNICCL_*`` environment variable) has a value that is not allowed."""


class AdapterError(OmnicclError, RuntimeError):
    """The adapter to the installed Horovod cannot be built or does not fit it."""


class NotHookedError(OmnicclError, RuntimeError):
    """``compression=omniccl`` was used and Horovod is not hooked, so it would do nothing."""


class ForkedProcessError(OmnicclError, RuntimeError):
    """A process forked after ``hvd.init()`` tried to reduce; Horovod does not live in it."""


class CommunicatorError(OmnicclError, RuntimeError):
    """A communicator cannot be used: closed, busy in another thread, or the system refused something."""


class PeerFailureError(CommunicatorError):
    """A rank or an aggregator died, fell silent, or sent something wrong. Final for its communicator."""


class InvalidArgumentError(OmnicclError, ValueError):
    """An argument is impossible, such as an array that cannot be reduced where it lies."""


class UnsupportedDtypeError(OmnicclError, TypeError):
    """A tensor has a dtype that cannot be reduced."""
