"""TLS between hookrow's sessions and a server with a certificate of a test's authority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from hookrow.stores._errors import AccessDenied, Unavailable
from hookrow.stores.sql._mariadb import MariaDBDatabase
from mariadb import Server
from relay import Relay, relays

NAME = "127.0.0.1"
"""The address of the server, for which its certificate is."""

CIPHER = "SHOW SESSION STATUS LIKE 'ssl_cipher'"


class Secured(NamedTuple):
    """A server with TLS, its port, and the folder with the files of its clients."""

    server: Server
    port: int
    files: Path

    def database(self, scheme: str, *, user: str = "root", **options: str) -> MariaDBDatabase:
        """Return a database that always exists; in the options, `{files}` stands for the folder."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        url = f"{scheme}://{user}@{NAME}:{self.port}/information_schema?{query}"
        return MariaDBDatabase(url.replace("{files}", str(self.files)))


@pytest.fixture(params=["mariadb", "mariadb+mysqldb"])
def scheme(request: pytest.FixtureRequest) -> str:
    if request.param.endswith("mysqldb") and find_spec("MySQLdb") is None:
        pytest.skip("mysqlclient is not installed")
    return str(request.param)


@pytest.fixture(scope="module")
def secured(own_mariadb: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Restart the server with a certificate of the authority `ca.pem`."""
    files = tmp_path_factory.mktemp("certificates")
    authority, client = trustme.CA(), "hookrow@example.com"
    authority.cert_pem.write_to_path(files / "ca.pem")
    trustme.CA().cert_pem.write_to_path(files / "another_ca.pem")
    authority.issue_cert(client).private_key_and_cert_chain_pem.write_to_path(files / "client.pem")
    own_mariadb.stop()
    own_mariadb.start(*_tls_options(own_mariadb, authority))
    with relays(own_mariadb.folder / "socket") as [relay]:
        yield Secured(own_mariadb, relay.port, files)
    own_mariadb.stop()
    own_mariadb.start()


def _tls_options(server: Server, authority: trustme.CA) -> Iterator[str]:
    """Write the files of a server; yield the options with their paths."""
    certificate = authority.issue_cert(NAME)
    files = {
        "ca": authority.cert_pem,
        "cert": certificate.cert_chain_pems[0],
        "key": certificate.private_key_pem,
    }
    for option, pem in files.items():
        path = server.folder / f"{option}.pem"
        pem.write_to_path(path)
        path.chmod(0o644)  # the server may have another user
        yield f"--ssl-{option}={path}"


def fetch(database: MariaDBDatabase, sql: str) -> Any:  # noqa: ANN401 - of any type
    """Return the last value of the only row of a query."""
    with database.recording() as connection:
        [(*_, value)] = connection.fetch(sql)
        return value


@pytest.mark.parametrize(
    "options",
    [
        {"ssl_mode": "REQUIRED"},
        {"ssl_ca": "{files}/ca.pem", "ssl_mode": "VERIFY_CA"},
        {"ssl_ca": "{files}/ca.pem"},
    ],
)
def test_encrypted_session(secured: Secured, scheme: str, options: dict[str, str]) -> None:
    """A session is encrypted, and reused: data of the protocol does not look like its end."""
    with closing(secured.database(scheme, **options)) as database:
        assert fetch(database, CIPHER)
        assert fetch(database, "SELECT connection_id()") == fetch(
            database, "SELECT connection_id()"
        )


def test_session_without_encryption(secured: Secured, scheme: str) -> None:
    with closing(secured.database(scheme, ssl_mode="DISABLED")) as database:
        assert fetch(database, CIPHER) == ""


def test_certificate_of_another_authority(secured: Secured, scheme: str) -> None:
    database = secured.database(scheme, ssl_ca="{files}/another_ca.pem")
    with pytest.raises(Unavailable, match="certificate"), database.recording():
        pass


def test_certificate_for_another_name(secured: Secured, scheme: str) -> None:
    """The name of the host is verified unless the URL says otherwise."""
    with closing(Relay(secured.server.folder / "socket", "127.0.0.2")) as relay:
        url = f"{scheme}://root@127.0.0.2:{relay.port}/mysql?ssl_ca={secured.files}/ca.pem"
        with pytest.raises(Unavailable, match="certificate"), MariaDBDatabase(url).recording():
            pass
        if scheme == "mariadb":  # MariaDB's library for the other driver always verifies it
            with closing(MariaDBDatabase(f"{url}&ssl_check_hostname=false")) as database:
                assert fetch(database, CIPHER)


def test_certificate_of_the_client(secured: Secured, scheme: str) -> None:
    """A server may require one: without it, access is denied."""
    execute = secured.server.execute
    execute("CREATE USER IF NOT EXISTS signed@'%' REQUIRE X509")
    execute("CREATE USER IF NOT EXISTS signed@localhost REQUIRE X509")
    options = {"ssl_ca": "{files}/ca.pem"}
    denied = secured.database(scheme, user="signed", **options)
    with pytest.raises(AccessDenied), denied.recording():
        pass
    options |= {"ssl_cert": "{files}/client.pem", "ssl_key": "{files}/client.pem"}
    with closing(secured.database(scheme, user="signed", **options)) as database:
        assert fetch(database, CIPHER)


def test_server_without_tls(own_mariadb: Server, scheme: str) -> None:
    """A session that must be encrypted is not opened without TLS."""
    own_mariadb.stop()
    own_mariadb.start("--skip-ssl")
    with relays(own_mariadb.folder / "socket") as [relay]:
        url = f"{scheme}://root@{NAME}:{relay.port}/mysql?ssl_mode=REQUIRED"
        with pytest.raises(Unavailable, match=r"SSL|TLS"), MariaDBDatabase(url).recording():
            pass
