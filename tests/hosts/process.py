"""An example as a user runs it: a process of its own, under a server that people use with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from command import Serving, clean_environment
from wire import free_port, get

EXAMPLES = Path(__file__).parents[2] / "examples"

SCRIPTS = Path(sys.executable).parent

Command = Callable[[str, int], Sequence[str]]
"""How a server is started for an application ("module:name"), at a port."""


def uvicorn(app: str, port: int) -> Sequence[str]:
    """Start uvicorn."""
    return "uvicorn", app, "--port", str(port), "--no-access-log"


def hypercorn(app: str, port: int) -> Sequence[str]:
    """Start hypercorn."""
    return "hypercorn", app, "--bind", f"127.0.0.1:{port}"


def granian(app: str, port: int) -> Sequence[str]:
    """Start granian."""
    return "granian", "--interface", "asgi", app, "--port", str(port)


def gunicorn(app: str, port: int) -> Sequence[str]:
    """Start gunicorn with threads: as many notifications can share a commit."""
    return "gunicorn", "--threads", "64", app, "--bind", f"127.0.0.1:{port}"


@contextmanager
def running(
    command: Command, app: str, folder: Path, variables: Mapping[str, str]
) -> Iterator[Serving]:
    """Run an application of `examples` or of the folder until the block ends.

    `variables` are all that is set besides what any shell has.
    """
    port = free_port()
    program, *arguments = command(app, port)
    log = folder / f"{program}-{port}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [SCRIPTS / program, *arguments],
            cwd=folder,
            env={
                **clean_environment(),
                "PYTHONPATH": f"{folder}:{EXAMPLES}",
                "PYTHONUNBUFFERED": "1",
                "HOME": str(folder),  # where gunicorn would put its control socket
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    serving = Serving(process, "127.0.0.1", port, log)
    try:
        serving.wait_until_it_listens()
        get(port, "/")  # some listen before they have loaded the application
        yield serving
    finally:
        serving.stop()
