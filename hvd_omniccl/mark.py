"""The mark that ``compress`` leaves on a tensor object for the wrapper around Horovod's calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

_ATTRIBUTE = "_omniccl_mark"


@dataclass(frozen=True)
class Mark:
    """What is known of a marked tensor.

    Attributes
    ----------
    block_elements
        Its block size.
    source_name
        The name of the tensor that was compressed; empty in eager mode.
    """

    block_elements: int
    source_name: str


def set_mark(tensor: Any, mark: Mark) -> None:
    """Leave ``mark`` on the object ``tensor``."""
    setattr(tensor, _ATTRIBUTE, mark)


def mark_of(tensor: Any) -> Optional[Mark]:
    """Return the mark on ``tensor``, or None."""
    mark = getattr(tensor, _ATTRIBUTE, None)
    return mark if isinstance(mark, Mark) else None
