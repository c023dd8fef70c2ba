"""The unit for systemd: well-formed, and hardened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nginx import installed

UNIT = Path(__file__).parents[2] / "deploy" / "hookrow@.service"

EXPOSED = "15"
"""In tenths; of what systemd calls exposure, where 10 is a service that may do everything."""


@pytest.mark.parametrize(
    "asked", [("verify",), ("security", "--offline=yes", "--threshold", EXPOSED)]
)
def test_systemd_takes_it(asked: tuple[str, ...], tmp_path: Path) -> None:
    """It has no fault, with an executable that is there, and leaves little to be attacked."""
    analyze = installed("systemd-analyze", "systemd")
    unit = tmp_path / UNIT.name
    installed_at = Path(sys.executable).parent
    unit.write_text(UNIT.read_text().replace("/opt/hookrow/bin", str(installed_at)))
    done = subprocess.run(
        [analyze, *asked, str(unit).replace("@", "@8001")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
