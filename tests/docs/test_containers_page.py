"""The files for Docker and Kubernetes, and their page: they are valid, and agree with hookrow.

`acceptance/test_container.py`, `test_caddy.py` and `test_rolling_update.py` run them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from command import Command
from deploy_files import COMPOSE, CONTAINER, DEPLOY, POD, RESOURCES
from hookrow._cli import hookrow
from hookrow._cli.settings import read_file, unknown_variables
from hookrow._server.workers import STOP_TIMEOUT
from session import ROOT, read_blocks
from wire import SECRET

PAGE = "docs/how-to/containers.md"

OLDEST = "1.30"
"""The oldest version of Kubernetes, as the page says."""

UPGRADE: dict[str, Any] = RESOURCES["Job"]["spec"]["template"]["spec"]
"""The pod of the Job."""

OWN = [COMPOSE["services"][name] for name in ("upgrade", "hookrow")]
"""The services of hookrow in the compose file."""


@pytest.mark.parametrize("options", [("--kubernetes-version", f"{OLDEST}.0"), ()])
def test_kubernetes_accepts_the_manifest(options: tuple[str, ...]) -> None:
    """Every field exists, in the oldest version and in the newest one."""
    validate = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run(
        [validate, "--strict", *options, DEPLOY / "kubernetes.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"version {OLDEST} " in (ROOT / PAGE).read_text(encoding="utf-8")


def test_the_compose_file_matches_its_specification() -> None:
    schema = json.loads(Path(__file__).with_name("compose-spec.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(COMPOSE)


def test_every_command_exists(tmp_path: Path) -> None:
    containers = (UPGRADE["containers"][0], CONTAINER)
    commands = [each["command"] for each in OWN] + [each["args"] for each in containers]
    for words in commands:
        done = Command(tmp_path).call(*words, "--help")
        assert done.stdout.startswith(f"Usage: hookrow {' '.join(words)} [OPTIONS]")


def test_every_setting_exists(tmp_path: Path) -> None:
    """The variables are settings, and both settings files are valid."""
    image = re.findall(r"HOOKROW_\w+(?==)", (DEPLOY / "Containerfile").read_text(encoding="utf-8"))
    pods = (variable["name"] for pod in (UPGRADE, POD) for variable in pod["containers"][0]["env"])
    names = {*image, *pods, *(name for each in OWN for name in each["environment"])}
    assert len(names) == 5
    assert [*unknown_variables(hookrow, names)] == []
    [of_compose] = re.findall(r"<<END\n(.*?)^END", _setup(), re.DOTALL | re.MULTILINE)
    for text in (of_compose, RESOURCES["ConfigMap"]["data"]["hookrow.toml"]):
        (tmp_path / "hookrow.toml").write_text(text)
        assert read_file(tmp_path / "hookrow.toml", hookrow).defaults["serve"]["metrics"] is True


def test_secrets_are_where_the_settings_expect_them() -> None:
    """The secrets of the compose file have the files that the page creates."""
    files = {each["file"].removeprefix("./") for each in COMPOSE["secrets"].values()}
    assert files == {*re.findall(r"> (secrets/\w+(?:\.toml)?)(?: |$)", _setup(), re.MULTILINE)}
    targets = [
        "/run/secrets/" + (each if isinstance(each, str) else each["target"])
        for each in OWN[1]["secrets"]
    ]
    assert targets == [OWN[1]["environment"]["HOOKROW_CONFIG"], _secret_file(_setup())]
    [mount] = [each for each in CONTAINER["volumeMounts"] if each["name"] == "secret"]
    [volume] = [each["secret"] for each in POD["volumes"] if each["name"] == "secret"]
    [item] = volume["items"]
    path = _secret_file(RESOURCES["ConfigMap"]["data"]["hookrow.toml"])
    assert path == f"{mount['mountPath']}/{item['path']}"
    assert item["key"] in RESOURCES["Secret"]["stringData"]


def test_images() -> None:
    """All files and the page have one version of hookrow, which the page's commands replace."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    [version] = {*re.findall(r"ghcr\.io/hookrow/hookrow:([\d.]+\d)", page)}
    pods = [each["containers"][0] for each in (UPGRADE, POD)]
    assert {each["image"] for each in OWN + pods} == {f"ghcr.io/hookrow/hookrow:{version}"}
    for command in re.findall(r"^sed -i '(s/hookrow.*)' (\S+)$", page, re.MULTILINE):
        script, name = command
        changed = subprocess.run(
            ["sed", script, DEPLOY / name], capture_output=True, text=True, check=True
        ).stdout
        assert version not in changed
        assert "hookrow:1.1.0" in changed
        if name == "kubernetes.yaml":
            names = [each["metadata"]["name"] for each in yaml.safe_load_all(changed)]
            assert names.count("hookrow-upgrade-1-1-0") == 1


def test_time_to_stop() -> None:
    """The longest stop of hookrow, even with workers, ends before the process is killed."""
    assert OWN[1]["stop_grace_period"] == "30s"
    assert STOP_TIMEOUT < 30
    delay = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert delay + STOP_TIMEOUT < POD["terminationGracePeriodSeconds"]


def test_pods_have_the_same_restrictions() -> None:
    for name in ("securityContext", "automountServiceAccountToken", "enableServiceLinks"):
        assert POD[name] == UPGRADE[name]
    assert CONTAINER["securityContext"] == UPGRADE["containers"][0]["securityContext"]
    assert OWN[0].keys() >= {"read_only", "cap_drop", "security_opt"}


def test_a_variable_of_a_service(tmp_path: Path) -> None:
    """The variable that Kubernetes sets for the Service is not a port, so pods do not get it."""
    assert POD["enableServiceLinks"] is False
    name = RESOURCES["Service"]["metadata"]["name"]
    variables = {f"{name.upper()}_PORT": "tcp://10.0.0.1:80", "HOOKROW_SECRET": SECRET}
    done = Command(tmp_path).call("serve", **variables)
    assert (done.returncode, "is not a valid integer" in done.stderr) == (2, True)


def _setup() -> str:
    """Return the commands with which the page prepares Compose."""
    [setup] = [each for each in read_blocks(PAGE, "sh") if "install -d" in each]
    return setup


def _secret_file(settings: str) -> str:
    [path] = re.findall(r'^secret_file = "(.*)"$', settings, re.MULTILINE)
    return str(path)
