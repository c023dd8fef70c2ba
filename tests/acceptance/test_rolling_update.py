"""A rolling update by deploy/kubernetes.yaml, with processes in place of pods.

They are ended as Kubernetes ends a pod: its pre-stop delay begins, during which it still gets new
connections until all nodes have noticed its end; after the delay, its process gets SIGTERM.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import choice
from subprocess import CompletedProcess

import pytest
from traffic import Counted, Load, OneRequest

from command import Command, Serving
from deploy_files import CONTAINER, RESOURCES
from hookrow._migrations import sql
from postgres import Databases
from wire import SECRET, Connection, eventually, get, listens

pytestmark = pytest.mark.never_flaky


class Service:
    """The pods of the Deployment on a database, and the Service in front of them."""

    def __init__(self, folder: Path, url: str, ending: ExitStack) -> None:
        self.url = url
        self._command = Command(folder)
        self._ending = ending
        secret = folder / "webhook-secret"
        secret.touch(0o600)
        secret.write_text(f"{SECRET}\n")
        settings = RESOURCES["ConfigMap"]["data"]["hookrow.toml"]
        (folder / "hookrow.toml").write_text(settings.replace("/run/secrets/hookrow", str(folder)))
        self._variables = {
            "HOOKROW_CONFIG": str(folder / "hookrow.toml"),
            "HOOKROW_DATABASE_URL": url,
            "HOOKROW_SECRET": "",  # it is in the file
        }
        self.addresses: list[int] = []
        """The ports among which new connections are distributed."""
        self.pods: list[Serving] = []
        for _ in range(RESOURCES["Deployment"]["spec"]["replicas"]):
            self.start()

    def connect(self, kind: type[Connection], _: int) -> Connection:
        """Connect to one of the addresses, as a node chooses it."""
        return kind(choice(self.addresses))

    def run(self, *words: str) -> CompletedProcess[str]:
        """Run a command with the settings of the pods."""
        return self._command.run(*words, **self._variables)

    def replace(self, pod: Serving, load: Load, *, has_delay: bool) -> None:
        """Replace a pod by a new one, without a moment in which fewer pods are ready."""
        self.start()
        if has_delay:
            load.wait_for(100, 200)
            # Otherwise, nodes whose only pods are terminating would not use them.
            assert _succeeds(pod, "readiness")
            self._remove(pod)
            load.wait_for(100, 200)
            assert _succeeds(pod, "liveness")
            _end(pod)
        else:
            _end(pod)
            load.wait_for(100, 200)
            self._remove(pod)

    def start(self) -> None:
        """Start a pod, and distribute connections to it when it is ready."""
        pod = self._ending.enter_context(self._command.starting(**self._variables))
        for probe in ("startup", "liveness", "readiness"):
            eventually(partial(_succeeds, pod, probe))
        self.pods.append(pod)
        self.addresses.append(pod.port)

    def _remove(self, pod: Serving) -> None:
        self.addresses.remove(pod.port)
        self.pods.remove(pod)


def _succeeds(pod: Serving, probe: str) -> bool:
    """Return whether a probe of the container succeeds: with a status from 200 to 399."""
    path = CONTAINER[f"{probe}Probe"]["httpGet"]["path"]
    return listens(pod.port) and 200 <= get(pod.port, path).status < 400


def _end(pod: Serving) -> None:
    """Send SIGTERM to the process of a pod, and wait until it has exited."""
    pod.send(signal.SIGTERM)
    assert pod.ended() == 0


@pytest.fixture
def service(postgres: Databases, tmp_path: Path) -> Iterator[Service]:
    """Run the pods on one PostgreSQL, with hookrow's tables."""
    url = postgres.create()
    postgres.execute(sql("postgresql"), url=url)
    with ExitStack() as ending:
        yield Service(tmp_path, url, ending)


def test_tables_of_a_newer_version(service: Service, postgres: Databases) -> None:
    """After the upgrade, pods of the old version continue, and start; their `db upgrade` fails."""
    load = Load(service.url, pause=0.02)
    with load.on(0, connect=partial(service.connect, Connection)):
        load.wait_for(100, 200)
        statement = "INSERT INTO hookrow_migrations (revision) VALUES ('9999')"
        postgres.execute(statement, url=service.url)
        done = service.run("db", "upgrade")
        assert (done.returncode, "does not know: install" in done.stderr) == (1, True)
        load.wait_for(100, 200)
        service.start()
        # A second line reports the times of the load's events, which are old.
        bodies = [get(each.port, "/readyz").body for each in service.pods]
        assert [each.partition(b"\n")[0] for each in bodies] == [b"ready"] * len(bodies)
        load.wait_for(100, 200)
    load.check(200)


def _replace_each(service: Service, kind: type[Connection], *, has_delay: bool) -> tuple[Load, int]:
    """Replace each pod under load; return the load, and how many connections were refused."""
    load, connect = Load(service.url, pause=0.02), Counted(partial(service.connect, kind))
    with load.on(0, connect=connect):
        load.wait_for(100, 200)
        for pod in [*service.pods]:
            service.replace(pod, load, has_delay=has_delay)
        load.wait_for(100, 200)
    print(f"{kind.__name__}: {load}; {connect.failed} connections were refused")
    return load, connect.failed


@pytest.mark.parametrize("kind", [Connection, OneRequest])
def test_rolling_update(kind: type[Connection], service: Service) -> None:
    """Every response is 200, no connection fails, and every notification is counted once."""
    load, refused = _replace_each(service, kind, has_delay=True)
    assert refused == 0
    load.check(200)
    assert load.miscounted() == []


def test_without_the_delay(service: Service) -> None:
    """Connections are refused, because the Service still distributes them to the closed port."""
    load, refused = _replace_each(service, OneRequest, has_delay=False)
    assert refused > 0
    load.check(200, None)  # a few connections may be reset when the port is closed
