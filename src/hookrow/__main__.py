"""`hookrow` and `python -m hookrow`: the command, where its extra is installed."""

from __future__ import annotations

import sys

from hookrow.errors import MissingExtra
from hookrow.server import sighup


def main() -> None:
    """Run the command; without its extra say how to install it, and exit with 1."""
    # Before the imports, which take most of the start. `serve` releases it once its handler is
    # installed, and any other command as soon as it is known to be another.
    sighup.hold()
    try:
        from hookrow.cli import hookrow  # noqa: PLC0415 - click may not be there
    except MissingExtra as error:
        sys.exit(f"Error: {error}")
    hookrow()


if __name__ == "__main__":
    main()
