"""The settings and commands of the page on failover work.

Its rehearsal runs in `acceptance/test_pages_run.py`.
"""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from django.db import connections
from sqlalchemy import text

import django_host
from hookrow.stores.sql._postgres import OPTIONS, PostgresDatabase
from pgbouncer import pooling
from postgres import Databases, find_binaries
from session import ROOT, execute, read_blocks, read_files
from wire import PATIENCE

PAGE = "docs/how-to/failover.md"
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def test_url() -> None:
    [settings] = read_blocks(PAGE, "toml")
    database = PostgresDatabase(tomllib.loads(settings)["database_url"])
    assert database.options["host"] == "db1.example.com,db2.example.com"


def test_limits() -> None:
    """The page names every option of libpq that hookrow sets, except for the encoding."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert [name for name in OPTIONS if f"`{name}`" not in page] == ["client_encoding"]


@pytest.mark.skipif(HAPROXY is None, reason="no haproxy: apt-get install haproxy")
@pytest.mark.parametrize("number", [0, 1], ids=["patroni", "script"])
def test_haproxy_accepts_its_settings(number: int, tmp_path: Path) -> None:
    settings = read_blocks(PAGE, "haproxy")[number]
    (tmp_path / "haproxy.cfg").write_text(settings)
    command = [str(HAPROXY), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    assert subprocess.run(command, timeout=PATIENCE, check=False).returncode == 0


def test_pgbouncer(postgres: Databases) -> None:
    """PgBouncer accepts the settings and, during a failover, the commands."""
    [settings] = read_blocks(PAGE, "ini")
    [_, reconnect, pause, *_] = read_blocks(PAGE, "sh")
    own = settings.partition("[pgbouncer]\n")[2].splitlines()
    environment = {"PATH": f"{find_binaries()}:{os.environ['PATH']}"}
    with pooling(f"host={postgres.folder}", *own) as port:
        for block in (reconnect, pause):
            command = ["bash", "-e", "-c", block.replace("6432", str(port))]
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
        console = f"postgresql://postgres@127.0.0.1:{port}/pgbouncer"
        values = {name: value for name, value, *_ in postgres.execute("SHOW CONFIG", url=console)}
    for line in own:
        name, _, value = line.partition(" = ")
        assert values[name] == value


def test_engine(postgres: Databases) -> None:
    code = read_files(PAGE)["engine.py"].replace("mail:password@/mail", "postgres@/postgres")
    for host in ("db1.example.com:5432", "db2.example.com:5432"):
        code = code.replace(host, str(postgres.folder))
    engine = execute(code)["engine"]
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW in_hot_standby")) == "off"
    engine.dispose()


def test_django(postgres: Databases) -> None:
    settings = execute(read_files(PAGE)["settings.py"])["DATABASES"]["default"]
    given = settings | {"NAME": "postgres", "USER": "postgres"}
    given["HOST"] = f"{postgres.folder},{postgres.folder}"
    with django_host.alias(postgres.url(), **given) as alias, connections[alias].cursor() as cursor:
        cursor.execute("SHOW in_hot_standby")
        assert cursor.fetchone() == ("off",)
