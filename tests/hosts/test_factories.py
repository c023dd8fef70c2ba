"""Application factories: the endpoint is mounted before its tables exist, in many applications."""

import gc
import json
import sys
import threading
from contextlib import ExitStack, closing
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from drivers import example_serving

import wire
from alembic_host import AlembicHost
from command import Command
from hookrow import Schema
from hookrow.migrations import upgrade
from session import read_blocks
from wire import ADAS, DELIVERY, ENDPOINT, SECRET, STRANGER, eventually

ATTACH, _, INDEX, _ = read_blocks("docs/how-to/tables.md", "python")[-4:]

SETUP = """
from sqlalchemy import MetaData
from {host}_app import create_app

app = create_app()
target_metadata = MetaData()
"""
"""What `env.py` has in place of its metadata; most hosts import it from their application."""

CONFIGURE = "context.configure(connection=connection, target_metadata=target_metadata)"

HOSTS = pytest.mark.parametrize("host", ["fastapi", "flask"])

FLASK_MIGRATE = """
from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from hookrow import Postmark, Receiver, Schema
from hookrow.flask import blueprint
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import attach

db = SQLAlchemy()
attach(db.metadata, Schema())


def create_app():
    app = Flask(__name__)
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite:///{file}"
    db.init_app(app)
    Migrate(app, db)
    with app.app_context():
        app.extensions["hookrow"] = Receiver(Postmark("{secret}"), SQLStore(db.engine))
    app.register_blueprint(blueprint(app.extensions["hookrow"]), url_prefix="/mail")
    return app
"""


def post(port: int, body: bytes) -> int:
    return wire.ask(port, wire.request(body, f"/mail{ENDPOINT}")).status


@HOSTS
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


def test_flask_db_upgrade_while_the_endpoint_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of Flask-Migrate create the tables; the application has mounted the endpoint."""
    file = tmp_path / "hookrow.db"
    (tmp_path / "migrated_app.py").write_text(FLASK_MIGRATE.format(file=file, secret=SECRET))
    monkeypatch.syspath_prepend(tmp_path)
    app = import_module("migrated_app").create_app()
    headers = {"X-Provider-Secret": SECRET}
    posted = partial(app.test_client().post, f"/mail{ENDPOINT}", data=STRANGER, headers=headers)
    with closing(app.extensions["hookrow"]):
        assert posted().status_code == 503
        for command in ("init", "migrate", "upgrade"):
            flask = (sys.executable, "-m", "flask", "--app", "migrated_app", "db", command)
            # The `env.py` of Flask-Migrate calls a deprecated method of Flask-SQLAlchemy.
            done = Command(tmp_path).execute(*flask, PYTHONWARNINGS="ignore")
            assert done.returncode == 0, done.stderr
        eventually(lambda: posted().status_code == 404)
    with app.app_context():
        app.extensions["sqlalchemy"].engine.dispose()


@HOSTS
def test_many_applications(tmp_path: Path, host: str) -> None:
    """Each has its own receiver and database, and leaves no threads or connections."""
    before = set(threading.enumerate())
    with ExitStack() as stack:
        ports = []
        for number in range(3):
            url = f"sqlite:///{tmp_path}/{number}.db"
            upgrade(url, Schema())
            ports.append(stack.enter_context(example_serving(host, url)))
        save = wire.head(f"/dispatches?email=ada@example.com&message_id={ADAS}", length=0)
        assert wire.ask(ports[1], save).status == 201
        assert [post(port, DELIVERY) for port in ports] == [404, 200, 404]
    eventually(lambda: set(threading.enumerate()) <= before)
    gc.collect()  # what was not closed would warn
