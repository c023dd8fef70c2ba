"""The settings of `hookrow serve`. The command line reads them from several sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from secrets import token_urlsafe

from hookrow._core.schema import Schema
from hookrow._http import ENDPOINT, endpoint_path
from hookrow._postmark_api import ADDRESS
from hookrow.errors import ConfigurationError
from hookrow.providers.postmark import Postmark


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server, which it passes to its worker processes.

    The log keeps entries for `keep`, and their bodies for `keep_bodies` (zero: not at all); None
    means forever. Without a `dashboard_password`, the dashboard requires the `generated_password`,
    which is new for each server. With a `provider_token`, the dashboard shows the status of the
    webhooks there.
    """

    secrets: tuple[str, ...] = field(default=(), repr=False)
    secret_file: str | None = None
    database_url: str = field(repr=False)  # may have a password
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = ""
    sweep: bool = True
    acknowledge_tests: bool = False
    acknowledge_parked: bool = False
    spool: str | None = None
    keep: timedelta | None = timedelta(days=90)
    keep_bodies: timedelta | None = None
    dashboard: bool = False
    dashboard_password: str | None = field(default=None, repr=False)
    generated_password: str = field(default_factory=token_urlsafe, repr=False)
    metrics: bool = False
    provider_token: str | None = field(default=None, repr=False)
    provider_api: str = ADDRESS
    schema: Schema = field(default_factory=Schema)

    @property
    def bodies(self) -> bool:
        """Whether the log keeps bodies at all."""
        return self.keep_bodies != timedelta(0)

    @property
    def dashboard_path(self) -> str:
        """The path of the dashboard, without a trailing slash."""
        return f"{endpoint_path(self.mount_path).removesuffix(ENDPOINT)}/dashboard"

    def accepted_secrets(self) -> Sequence[str]:
        """Return the secrets; if they are in a file, read it at each call.

        Raises `ConfigurationError` as `read_secrets` does, and if no secret is set, or if a header
        cannot contain one.
        """
        secrets = read_secrets(self.secrets, self.secret_file)
        if not all(secrets) or not secrets:
            raise ConfigurationError(
                "The webhook secret is missing or empty: set HOOKROW_SECRET, --secret or "
                "--secret-file, for example to a secret from "
                "`python -c 'import secrets; print(secrets.token_urlsafe())'`."
            )
        try:
            Postmark(*secrets)
        except ConfigurationError as error:
            source = self.secret_file or "HOOKROW_SECRET, --secret or secret in hookrow.toml"
            raise ConfigurationError(f"{error} It is set in {source}.") from error
        return secrets


def read_secrets(secrets: Sequence[str], file: str | None) -> Sequence[str]:
    """Return the secrets, or those in the file: one per line, the newest first.

    Lines that repeat a secret are ignored: `hookrow provider rotate` would wait until the newest
    secret is rejected.

    Raises `ConfigurationError` if the file cannot be read or has no secret, or if secrets are also
    set: the command line passes both only if neither takes precedence.
    """
    if file is None:
        return secrets
    if secrets:
        raise ConfigurationError(
            "Both secret_file and secret (or previous_secret) are set, and neither takes "
            "precedence; use only one. A secret file may have several lines, the newest first."
        )
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"The secret file cannot be read: {error}. Correct --secret-file, "
            "HOOKROW_SECRET_FILE or secret_file."
        ) from error
    if not (found := [*dict.fromkeys(line.strip() for line in lines if line.strip())]):
        raise ConfigurationError(
            f"The secret file {file} is empty: write one secret per line, the newest first, or "
            "correct --secret-file, HOOKROW_SECRET_FILE or secret_file."
        )
    return found


def origin(host: str, port: int) -> str:
    """Return the beginning of the server's URLs, without a trailing slash."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
