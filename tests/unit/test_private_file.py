"""The creation of files that contain personal data."""

import os
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import pytest

from hookrow.stores._private_file import create_private_file
from wire import PATIENCE


def test_no_thread_uses_a_new_file_before_its_descriptor_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The close would release the locks that the other thread's connection already has."""
    path, closing, closed, close = tmp_path / "new.db", Event(), Event(), os.close

    def slow_close(descriptor: int) -> None:
        closing.set()
        assert closed.wait(PATIENCE)
        close(descriptor)

    with ThreadPoolExecutor() as threads:
        monkeypatch.setattr(os, "close", slow_close)
        first = threads.submit(create_private_file, path)
        assert closing.wait(PATIENCE)
        monkeypatch.setattr(os, "close", close)
        second = threads.submit(create_private_file, path)
        assert wait([second], 0.02).not_done
        closed.set()
        first.result(PATIENCE)
        second.result(PATIENCE)


@pytest.mark.parametrize("umask", [0o000, 0o277, 0o777])
def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    path, before = tmp_path / "new.db", os.umask(umask)
    try:
        create_private_file(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_process_that_creates_the_file_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file stays as it is."""
    path = tmp_path / "new.db"
    path.write_text("content")
    path.chmod(0o640)
    monkeypatch.setattr(Path, "exists", lambda _: False)
    create_private_file(path)
    assert path.read_text() == "content"
    assert path.stat().st_mode & 0o777 == 0o640
