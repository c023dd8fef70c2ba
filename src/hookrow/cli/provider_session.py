"""What the commands of `hookrow provider` share: their options, the token and the API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hookrow.cli import options
from hookrow.cli.app import App, HostApp
from hookrow.cli.options import JSON, option
from hookrow.cli.output import echo
from hookrow.cli.settings import PROVIDER_TOKEN, choose_secrets
from hookrow.describe import printable
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.postmark_api import ADDRESS
from hookrow.providers.postmark import Postmark
from hookrow.server.settings import read_secrets

if TYPE_CHECKING:
    from hookrow.postmark_api.client import PostmarkAPI
    from hookrow.postmark_api.errors import VerificationFailed
    from hookrow.postmark_api.register import Wanted
    from hookrow.postmark_api.webhooks import Server, Stream
    from hookrow.stores.sql import SQLStore

API = option(
    "--provider-api",
    type=options.api_address,
    default=ADDRESS,
    metavar="URL",
    help="The address of the provider's API.",
)
TOKEN_FILE = option(
    "--provider-token-file",
    metavar="FILE",
    help="Read the token of the API from this file, not from HOOKROW_PROVIDER_TOKEN.",
)
STREAM = click.option(
    "--stream",
    "streams",
    multiple=True,
    metavar="ID",
    help="Only this message stream; may be repeated. By default, all streams that send mail.",
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Show what would change, and change nothing."
)


@dataclass(frozen=True, slots=True)
class Session:
    """The API, and the secrets and the store that hookrow uses.

    `secret_file` is None if the secrets are not from a file.
    """

    api: PostmarkAPI
    secrets: Sequence[str]
    secret_file: str | None
    app: App
    database_url: str

    def require_secret(self) -> None:
        """Raise `ConfigurationError` if no secret is set, because none could be compared."""
        if not self.secrets:
            raise ConfigurationError(
                "The webhook secret is missing: set HOOKROW_SECRET, --secret or --secret-file to "
                "the secret that hookrow accepts."
            )

    def wanted(self, url: str | None = None) -> Wanted:
        """Return the settings of a correct webhook. Raises `ConfigurationError` for a wrong URL."""
        from hookrow.postmark_api.register import Wanted, triggers_of

        triggers = triggers_of(self.app.recorded)
        return Wanted(url=url, secrets=self.secrets, triggers=triggers)

    def connect(
        self, store: SQLStore | None, streams: Sequence[str], url: str | None = None
    ) -> tuple[Server, Sequence[Stream]]:
        """Return the token's server, and the streams with these names, or all of its streams.

        Raises `APIError`, and `ConfigurationError` if the URL is not valid, if there is no such
        stream, or if the notifications in the store's log are from another server.
        """
        from hookrow.postmark_api import webhooks
        from hookrow.postmark_api.status import check_server

        wanted = self.wanted(url)
        server = webhooks.read_server(self.api)
        chosen = webhooks.read_streams(self.api, streams)
        if store is not None:
            found = (each for one in chosen for each in webhooks.read_webhooks(self.api, one))
            check_server(server, store, found, wanted)
        return server, chosen

    @contextmanager
    def open_log(self) -> Iterator[SQLStore | None]:
        """Yield the store, or warn and yield None if it cannot be opened."""
        with ExitStack() as stack:
            store = None
            try:
                store = stack.enter_context(self.app.open_store(self.database_url))
            except HookrowError as error:
                echo(f"Warning: The log is not available for comparison. {error}", err=True)
            yield store


def with_session(command: Callable[..., object]) -> Callable[..., object]:
    """Add the common options to a command, whose first argument becomes a `Session`."""

    @options.SECRET
    @options.PREVIOUS_SECRET
    @options.SECRET_FILE
    @options.DATABASE_URL
    @API
    @TOKEN_FILE
    @STREAM
    @JSON
    @click.pass_context
    @wraps(command)
    def wrapped(
        context: click.Context,
        /,
        *,
        database_url: str,
        provider_api: str,
        provider_token_file: str | None,
        secret: str | None,
        previous_secret: str | None,
        secret_file: str | None,
        **rest: Any,  # noqa: ANN401 - the command's own
    ) -> None:
        from hookrow.postmark_api.client import PostmarkAPI

        app = context.obj
        secrets: Sequence[str] = ()
        if isinstance(app, HostApp):
            if app.provider.name != Postmark.name:
                raise ConfigurationError(
                    f"{app} receives from {app.provider.name}: `hookrow provider` manages only "
                    "webhooks at Postmark."
                )
            secrets = app.secrets
        file = None
        if not secrets:
            given, file = choose_secrets(
                context, secret=secret, previous_secret=previous_secret, secret_file=secret_file
            )
            secrets = read_secrets(given, file)
        if secrets:
            Postmark(*secrets)
        token = read_token(context, provider_token_file)
        if token is None:
            raise ConfigurationError(
                "The token of the provider's API is missing: set HOOKROW_PROVIDER_TOKEN, or "
                "--provider-token-file to a file that contains it. It is the API token of the "
                "server, on its page API Tokens at the provider."
            )
        api = PostmarkAPI(token, provider_api, hidden=secrets)
        command(Session(api, secrets, file, app, database_url), **rest)

    return wrapped


def describe_failure(error: VerificationFailed, url: str) -> HookrowError:
    """Return the error with the result of each trigger, and the remedy."""
    from hookrow.postmark_api.register import advice

    results = [
        f"    {each.trigger}: {each.status or 'no response'}. {each.message}".rstrip()
        for each in error.trials
    ]
    remedies = dict.fromkeys(advice(each, url) for each in error.trials if not each.success)
    lines = [str(error), *results, "The webhook was not changed.", *remedies]
    return HookrowError("\n".join(map(printable, lines)))


def read_token(context: click.Context, file: str | None) -> str | None:
    """Return the token of the API, or None if it is not set. Raises `ConfigurationError`."""
    token = os.environ.get(PROVIDER_TOKEN, "").strip()
    source = context.get_parameter_source("provider_token_file")
    if file is None or (token and source is not ParameterSource.COMMANDLINE):
        return token or None
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"The token file {file} cannot be read: {reason}. Correct --provider-token-file, "
            "HOOKROW_PROVIDER_TOKEN_FILE or provider_token_file."
        ) from error
    if not token:
        raise ConfigurationError(f"The token file {file} is empty: write the token into it.")
    return token
