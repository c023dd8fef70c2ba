"""`hookrow check URL`: what is reported about a server's TLS."""

from __future__ import annotations

import ssl
import subprocess
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from probes import HEADER, HOOKROW, PATH, faults, served, to

from loopback import loopback
from nginx import installed
from wire import SECRET


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Return a function that makes a certificate, with its key, for a name and some days."""
    openssl = installed("openssl", "openssl")
    folder = tmp_path_factory.mktemp("certificates")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

    @cache
    def make(name: str, days: int) -> Path:
        request, file = folder / "request", folder / f"{name}{days}.pem"
        names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
        signed = ("-days", str(days), "-copy_extensions", "copy", "-signkey", f"{file}.key")
        for command in (
            ("req", "-new", *curve, "-keyout", f"{file}.key", "-out", request, *names),
            ("x509", "-req", "-in", request, *signed, "-out", file),
        ):
            subprocess.run([openssl, *command], check=True, capture_output=True)
        return file

    return make


def secured(file: Path) -> ssl.SSLContext:
    """Return the context of a server with a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, f"{file}.key")
    return context


@pytest.fixture
def context(
    certificates: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch
) -> ssl.SSLContext:
    """Return the context of a server for localhost whose certificate is trusted here."""
    file = certificates("localhost", 90)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    return secured(file)


@pytest.mark.parametrize(
    ("name", "days", "texts"),
    [
        ("localhost", 5, ["warning tls: TLSv1.3; the certificate is trusted and ends"]),
        ("localhost", -1, ["error tls: The certificate has expired.", "warning secret"]),
        ("a.test", 90, ["error tls: The certificate is not for the", "warning secret"]),
        ("localhost", 91, ["error tls: The certificate is self-", "warning secret"]),
    ],
)
def test_certificate(
    certificates: Callable[[str, int], Path],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    days: int,
    texts: list[str],
) -> None:
    """Its name, end and issuer are checked; the secret is sent only if it is trusted."""
    file = certificates(name, days)
    if "self-" not in texts[0]:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    sent: set[str] = set()

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        sent.add(environ.get(HEADER, ""))
        return HOOKROW(environ, start)

    with loopback(app, secured(file)) as port:
        found = faults(f"https://localhost:{port}{PATH}")
    assert len(found) == len(texts), found
    assert all(map(str.startswith, found, texts))
    assert (SECRET in sent) == (len(texts) == 1)


def test_versions(context: ssl.SSLContext) -> None:
    """Plain HTTP at an https URL is an error, and so is only TLS 1.1 and older."""
    with loopback(HOOKROW) as port:
        [fault] = faults(f"https://127.0.0.1:{port}{PATH}")
    assert fault.startswith(f"error tls: Port {port} does not speak TLS.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with loopback(HOOKROW, context) as port:
        [fault] = faults(f"https://localhost:{port}/")
    assert fault.startswith("error tls: The server speaks no version of TLS that is in use.")


def test_redirect(context: ssl.SSLContext) -> None:
    """If http redirects to hookrow at https, which has no fault, the remedy is that URL."""
    with loopback(HOOKROW, context) as port:
        url = f"https://localhost:{port}{PATH}"
        assert faults(url) == []
        [fault] = served(to(url, 301))
    assert fault.endswith(f"Give the provider {url}: hookrow answers there.")
