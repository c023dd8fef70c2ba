"""Runs HAProxy in front of database servers, with the settings that a page of the docs prints."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nginx import installed, listening


@contextmanager
def balancing(
    settings: str, replaced: Mapping[str, str], port: int, folder: Path
) -> Iterator[None]:
    """Run HAProxy until the block ends, with some of the settings' texts replaced.

    It listens at the port.
    """
    for text, own in replaced.items():
        assert text in settings
        settings = settings.replace(text, own)
    file = folder / "haproxy.cfg"
    file.write_text(settings)
    command = [installed("haproxy", "haproxy"), "-db", "-f", file]
    with listening(command, port, folder / "haproxy.log"):
        yield
