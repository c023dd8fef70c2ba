"""`hookrow` and `python -m hookrow`: the command, if its extra is installed."""

from __future__ import annotations

import sys

from hookrow.errors import MissingExtra
from hookrow.server import hold_sighup


def main() -> None:
    """Run the command; without its extra, print how to install it and exit with status 1."""
    # Before the imports, which take most of the start time. `serve` releases the signal when its
    # handler is installed, and every other command immediately.
    hold_sighup()
    try:
        from hookrow.cli import hookrow  # noqa: PLC0415 - click may not be installed
    except MissingExtra as error:
        sys.exit(f"Error: {error}")
    hookrow()


if __name__ == "__main__":
    main()
