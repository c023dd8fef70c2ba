"""`hookrow completion`: prints a shell's script for completion, which click generates."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

ZSH_START = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"
"""Loads the functions that click's script for zsh needs, unless ~/.zshrc has loaded them."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    For bash, add this line to ~/.bashrc: eval "$(hookrow completion bash)". For zsh, add this line
    to ~/.zshrc: eval "$(hookrow completion zsh)". For fish, add this line to config.fish: hookrow
    completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - for mypy: click has these shells
    if shell == "zsh":
        click.echo(ZSH_START)
    # The name of the variable is click's own, for a program of this name.
    click.echo(kind(context.find_root().command, {}, "hookrow", "_HOOKROW_COMPLETE").source())
