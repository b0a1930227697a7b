"""``python -m hvd_omniccl adapter`` builds the adapter, ``settings`` prints the table of settings."""

from __future__ import annotations

import argparse
import sys

from . import hook
from .config import markdown_table


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hvd_omniccl", description=__doc__)
    parser.add_argument("command", choices=("adapter", "settings"))
    command = parser.parse_args().command
    if command == "settings":
        print(markdown_table())
        return 0
    # The import of the package has built it, or knows why not.
    current = hook.state()
    if current.module is None:
        print(f"hvd_omniccl: {current.failure}", file=sys.stderr)
        return 1
    print(current.module.__file__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
