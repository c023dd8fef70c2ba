"""Application factories: the endpoint is mounted before its tables exist."""

import json
from pathlib import Path

import pytest
from drivers import example_serving

import wire
from alembic_host import AlembicHost
from session import read_blocks
from wire import ADAS, DELIVERY, ENDPOINT, STRANGER, eventually

ATTACH, _, INDEX, _ = read_blocks("docs/how-to/tables.md", "python")[-4:]

SETUP = """
from sqlalchemy import MetaData
from {host}_app import create_app

app = create_app()
target_metadata = MetaData()
"""
"""What `env.py` has in place of its metadata; most hosts import it from their application."""

CONFIGURE = "context.configure(connection=connection, target_metadata=target_metadata)"


def post(port: int, body: bytes) -> int:
    return wire.ask(port, wire.request(body, f"/mail{ENDPOINT}")).status


@pytest.mark.parametrize("host", ["fastapi", "flask"])
@pytest.mark.filterwarnings("ignore:.*expression-based index")  # docs/how-to/tables.md explains it
def test_alembic_upgrade_while_the_endpoint_serves(
    tmp_path: Path, empty_database_url: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It responds with 503 until the tables exist, and then records without a restart."""
    monkeypatch.setattr("hookrow.stores.sql.store.VERIFY_EVERY", 0.1)
    monkeypatch.setattr("hookrow.receiver.recorder.PAUSE_AFTER_OUTAGE", 0.1)
    with example_serving(host, empty_database_url) as port:
        assert post(port, STRANGER) == 503
        setup = SETUP.format(host=host) + ATTACH
        project = AlembicHost(tmp_path / "alembic", empty_database_url, setup, CONFIGURE)
        project.revise(*[INDEX] * empty_database_url.startswith("sqlite"))
        project.upgrade()
        eventually(lambda: post(port, STRANGER) == 404)
        save = wire.head(f"/dispatches?email=ada@example.com&message_id={ADAS}", length=0)
        assert wire.ask(port, save).status == 201
        assert post(port, DELIVERY) == 200
        shown = wire.get(port, f"/dispatches/{ADAS}")
        assert json.loads(shown.body)["delivered_at"].startswith("2026-03-04")
