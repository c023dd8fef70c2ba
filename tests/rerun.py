"""Run pytest, and run tests that fail once more: `python tests/rerun.py ARGUMENT...`.

The arguments are pytest's. If tests failed and nothing else is wrong, these tests run again by
themselves, one after the other, in another process. The run passes if each of them then passes, and
lists them as flaky at its end. Tests with the mark `never_flaky` are not run again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence

import pytest

MARK = "never_flaky"
"""The mark of tests whose failure is final."""

ALONE = "--alone"
"""The first argument of the second run, which the ids of tests follow."""


class Results:
    """A plugin of pytest that collects the ids of the tests that passed and failed.

    `final` contains the failures after which no test may run again.
    """

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.final: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the result of a test, or of its fixtures."""
        if report.passed and report.when == "call":
            self.passed.add(report.nodeid)
        if report.failed:
            self.failed.add(report.nodeid)
            # If a worker of pytest-xdist crashed, the marks of its test are not known.
            if MARK in report.keywords or not report.keywords:
                self.final.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Collect a file whose tests are not known, because it cannot be imported."""
        if report.failed:
            self.final.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Note that tests did not run, because of the option `--exitfirst` or `--maxfail`."""
        if session.shouldfail:
            self.final.add(str(session.shouldfail))


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return pytest's exit status, or 0 if all tests that failed are flaky."""
    if arguments and arguments[0] == ALONE:
        return _run_alone(arguments[1:])
    results = Results()
    status = pytest.main([*arguments], plugins=[results])
    if status != pytest.ExitCode.TESTS_FAILED or not results.failed:
        return status
    if results.final:
        _list("Not run again, because these failures are final:", results.final)
        return status
    _list("Running once more, by themselves:", results.failed)
    alone = [sys.executable, __file__, ALONE, *sorted(results.failed)]
    if subprocess.run(alone, check=False).returncode != 0:
        return status
    _list("Flaky: failed once, then passed:", results.failed)
    return pytest.ExitCode.OK


def _run_alone(ids: Sequence[str]) -> int:
    """Run these tests in this process; return 0 only if each of them has run and passed."""
    results = Results()
    status = pytest.main(["--numprocesses", "0", *ids], plugins=[results])
    missing = {*ids} - results.passed
    if status == pytest.ExitCode.OK and missing:
        _list("Did not pass when run once more:", missing)
        return pytest.ExitCode.TESTS_FAILED
    return status


def _list(title: str, ids: Iterable[str]) -> None:
    print("", title, *(f"  {each}" for each in sorted(ids)), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
