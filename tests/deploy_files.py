"""The files in the folder deploy, as values."""

from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))

RESOURCES: dict[str, dict[str, Any]] = {
    each["kind"]: each
    for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
}
"""The resources in Kubernetes, by their kind."""

ANNOTATIONS: dict[str, str] = RESOURCES["Deployment"]["spec"]["template"]["metadata"]["annotations"]
"""The annotations of its pods."""

POD: dict[str, Any] = RESOURCES["Deployment"]["spec"]["template"]["spec"]
"""The pods of the Deployment."""

CONTAINER: dict[str, Any] = POD["containers"][0]
"""Their only container."""
