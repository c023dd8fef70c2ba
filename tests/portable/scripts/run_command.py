"""Runs `hookrow` with the arguments."""

from hookrow.__main__ import main

main()
