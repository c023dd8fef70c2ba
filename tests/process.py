"""Runs the examples in processes, under common servers."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from command import Serving, clean_environment, started
from wire import free_port, get

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = Path(sys.executable).parent

Command = Callable[[str, int], Sequence[str]]
"""Returns the command line of a server for an application ("module:name") and a port."""


def uvicorn(app: str, port: int) -> Sequence[str]:
    return "uvicorn", app, "--port", str(port), "--no-access-log"


def hypercorn(app: str, port: int) -> Sequence[str]:
    return "hypercorn", app, "--bind", f"127.0.0.1:{port}"


def granian(app: str, port: int) -> Sequence[str]:
    return "granian", "--interface", "asgi", app, "--port", str(port)


def gunicorn(app: str, port: int) -> Sequence[str]:
    """Start gunicorn with threads, so that notifications can share a commit."""
    return "gunicorn", "--threads", "64", app, "--bind", f"127.0.0.1:{port}"


@contextmanager
def running(
    command: Command, app: str, folder: Path, variables: Mapping[str, str]
) -> Iterator[Serving]:
    """Run an application of `examples` or of the folder until the block ends."""
    port = free_port()
    program, *arguments = command(app, port)
    environment = {
        **clean_environment(),
        "PYTHONPATH": f"{folder}:{EXAMPLES}",
        "PYTHONUNBUFFERED": "1",
        "HOME": str(folder),  # for gunicorn's control socket
        **variables,
    }
    with started([str(SCRIPTS / program), *arguments], folder, environment, port) as serving:
        serving.wait_until_it_listens()
        get(port, "/")  # some servers listen before they have loaded the application
        yield serving
