"""Measure how many faults in the core the tests detect: `make mutants`.

cosmic-ray creates the mutants, each with one changed operator, number, decorator or loop. 400 of
them, the same ones in every run, are tested in copies of the tree with the unit tests of their
module and the test of the law on the model and in memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from queue import SimpleQueue

import hypothesis
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from parso.tree import NodeOrLeaf

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    *("_core/rules", "_core/changes", "_core/log_entry", "_core/sizes"),
    *("_receiver/batch", "_receiver/recorder"),
)
TESTS = (
    *("tests/unit/test_rules.py", "tests/unit/test_log_entry.py", "tests/unit/test_batch.py"),
    *("tests/unit/test_recorder.py", "tests/unit/test_failures.py", "tests/unit/test_receiver.py"),
    *("tests/unit/test_acknowledge.py", "tests/unit/test_provider.py", "tests/unit/test_sizes.py"),
    *("tests/unit/test_observer.py", "tests/unit/test_logging.py"),
    *("tests/unit/test_optional.py", "tests/unit/test_replay.py", "tests/unit/test_changes.py"),
    *("tests/stores/test_law.py", "-k", "not (sqlite or postgres)"),
)
TIMEOUT_FACTOR = 5
"""A mutant counts as hanging if its tests take this many times as long as those of the original."""

PROCESSES = multiprocessing.get_context("forkserver")
"""Starts processes that have imported the libraries, but not hookrow."""


def pytest_configure() -> None:
    """Skip the search for smaller failing examples, which are not printed here.

    This file is a plugin of pytest when it tests a mutant.
    """
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", phases=phases)
    hypothesis.settings.load_profile("mutants")


@dataclass(frozen=True)
class Mutant:
    """A module with one fault: the name of cosmic-ray's operator, and where it is applied."""

    module: Path
    operator: str
    occurrence: int

    def text(self) -> str:
        """Return the module's text with the fault."""
        text: str = mutate_code(
            (ROOT / self.module).read_text(), get_operator(self.operator)(), self.occurrence
        )
        return text

    def describe(self) -> str:
        """Return the lines that the fault changes."""
        original = (ROOT / self.module).read_text().split("\n")
        changed = unified_diff(original, self.text().split("\n"), n=0, lineterm="")
        return "\n".join([str(self.module), *list(changed)[2:]])


def find_mutants(module: Path) -> Iterator[Mutant]:
    """Yield every mutant of the module, in a fixed order. Annotations are not changed."""
    nodes = [*ast_nodes(get_ast((ROOT / module).read_text()))]
    for name in sorted(operator_names()):
        if get_operator(name).arguments():  # replaces variables, which must be named
            continue
        operator = get_operator(name)()
        places = (node for node in nodes for _ in operator.mutation_positions(node))
        for occurrence, node in enumerate(places):
            if is_code(node):
                yield Mutant(module, name, occurrence)


def is_code(node: NodeOrLeaf) -> bool:
    """Return whether the node is executed, unlike annotations and the `*` of parameters."""
    while parent := node.parent:
        siblings = parent.children
        before = siblings[: siblings.index(node)]
        annotated = parent.type in {"annassign", "tfpdef"} and before and before[-1] == ":"
        if annotated or parent.type in {"param", "parameters"} or "->" in before[-1:]:
            return False
        node = parent
    return True


class Tree:
    """A copy of the repository, in which mutants are tested one after another."""

    def __init__(self, folder: Path, tests: Sequence[str]) -> None:
        """Copy the repository into the folder and run the tests, which must pass."""
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        self._folder = folder
        self._tests = tests
        self._timeout: float | None = None
        started = time.monotonic()
        if self._run(compiles=True) != 0:
            sys.exit("The tests fail without any mutant.")
        self._timeout = TIMEOUT_FACTOR * (time.monotonic() - started)

    def test(self, mutant: Mutant) -> str:
        """Return "killed", "survived" or "hung"."""
        file = self._folder / mutant.module
        # Python would use the compiled code of another mutant of the same length and second.
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()
        file.write_text(mutant.text())
        result = self._run(compiles=False)
        shutil.copy(ROOT / mutant.module, file)
        return "hung" if result is None else "killed" if result else "survived"

    def _run(self, *, compiles: bool) -> int | None:
        """Return pytest's exit code, or None if it takes too long."""
        process = PROCESSES.Process(target=run_tests, args=(self._folder, self._tests, compiles))
        process.start()
        process.join(self._timeout)
        result = process.exitcode
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        return result


def run_tests(folder: Path, tests: Sequence[str], compiles: bool) -> None:  # noqa: FBT001 - a process's arguments
    """Run the tests of a tree in this process, and end it with pytest's exit code."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.chdir(folder)
    sys.path.insert(0, str(folder / "src"))
    sys.dont_write_bytecode = not compiles
    imported = "ignore::pytest.PytestAssertRewriteWarning"
    options = ("-p", "no:cacheprovider", "--hypothesis-seed=0", "--exitfirst", "-W", imported)
    os._exit(pytest.main([*options, *tests], plugins=[sys.modules[__name__]]))


def main() -> None:
    """Test the sample; print the surviving mutants and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="number of mutants to test")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="number of tests at once"
    )
    parser.add_argument("tests", nargs="*", default=TESTS, help="arguments of pytest")
    arguments = parser.parse_args()

    PROCESSES.set_forkserver_preload(["__main__", "django", "psycopg", "sqlalchemy"])
    started = time.monotonic()
    modules = [Path("src/hookrow") / f"{name}.py" for name in MODULES]
    mutants = [mutant for module in modules for mutant in find_mutants(module)]
    sample = random.Random(arguments.seed).sample(mutants, min(arguments.sample, len(mutants)))
    counts = {module: Counter[str]() for module in modules}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.workers) as threads:
        folders = [Path(folder) / str(number) for number in range(arguments.workers)]
        trees: SimpleQueue[Tree] = SimpleQueue()
        for tree in threads.map(lambda folder: Tree(folder, arguments.tests), folders):
            trees.put(tree)

        def test(mutant: Mutant) -> str:
            tree = trees.get()
            try:
                return tree.test(mutant)
            finally:
                trees.put(tree)

        for mutant, result in zip(sample, threads.map(test, sample), strict=True):
            counts[mutant.module][result] += 1
            if result == "survived":
                print(mutant.describe(), "\n", flush=True)

    print(f"{len(sample)} of {len(mutants)} mutants, seed {arguments.seed}:")
    for module, results in counts.items():
        print(f"  {module.stem:10} {dict(results)}")
    survived = sum(results["survived"] for results in counts.values())
    minutes = (time.monotonic() - started) / 60
    print(f"{1 - survived / len(sample):.1%} detected, in {minutes:.0f} minutes")


if __name__ == "__main__":
    main()
