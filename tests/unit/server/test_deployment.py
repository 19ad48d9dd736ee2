"""The files in deploy/: what can be told about them without a container engine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
yaml = pytest.importorskip("yaml", reason="the extra 'system' is not installed")

from typer.testing import CliRunner  # noqa: E402

from sfumato.cli.app import app  # noqa: E402
from sfumato.server.configuration import ConfigurationError, checked  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
pytestmark = pytest.mark.skipif(not DEPLOY.exists(), reason="the folder deploy is not there")


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Secrets as the files say to make them."""
    for name in ("noise_key", "subject_key", "noise.key"):
        (tmp_path / name).write_bytes(os.urandom(32))
    (tmp_path / "ledger_url").write_text("postgresql://sfumato:secret@ledger:5432/sfumato\n")
    return tmp_path


def _accepted(text: str, secrets: Path) -> Any:
    for folder in ("/var/run/secrets/sfumato", "/run/secrets"):
        text = text.replace(folder, str(secrets))
    return checked(tomllib.loads(text), secrets)


def test_every_settings_file_is_accepted(secrets: Path) -> None:
    assert _accepted((DEPLOY / "sfumato.toml").read_text(), secrets).mechanism == "everyday"
    settings = _accepted((DEPLOY / "compose.toml").read_text(), secrets)
    assert settings.ledger is not None
    assert settings.ledger.url == "postgresql://sfumato:secret@ledger:5432/sfumato"
    (secrets / "ledger_url").unlink()
    with pytest.raises(ConfigurationError, match=r"ledger\.url_file"):
        _accepted((DEPLOY / "compose.toml").read_text(), secrets)


def test_what_is_commented_out_in_the_settings_is_right_too(secrets: Path) -> None:
    text = re.sub(r"(?m)^# (?=\[|[a-z_]+ = )", "", (DEPLOY / "sfumato.toml").read_text())
    for name in ("subject.key", "upstream.key"):
        (secrets / name).write_bytes(os.urandom(32))
    settings = _accepted(text.replace("sha256$...", f"sha256${'0' * 32}${'0' * 64}"), secrets)
    assert settings.chat is not None
    assert settings.ledger is not None
    assert settings.keys[0].id == "billing"


def test_compose_names_what_is_there(secrets: Path) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert set(service["secrets"]) <= set(compose["secrets"])
        assert set(service["networks"]) <= set(compose["networks"])
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]
    served = compose["services"]["sfumato"]
    assert (DEPLOY / served["build"]["context"] / served["build"]["dockerfile"]).is_file()
    assert served["read_only"] is True
    assert all(port.startswith("127.0.0.1:") for port in served["ports"])
    assert "ports" not in compose["services"]["ledger"]
    used = set(re.findall(r"/run/secrets/(\w+)", (DEPLOY / "compose.toml").read_text()))
    assert used == set(served["secrets"])


def test_kubernetes_objects_fit_together(secrets: Path) -> None:
    objects = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    assert set(objects) == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert {one["metadata"]["namespace"] for one in objects.values()} == {"sfumato"}
    settings = _accepted(objects["ConfigMap"]["data"]["sfumato.toml"], secrets)
    pod = objects["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"].items()
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert objects[kind]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["Service"]["spec"]["selector"].items() <= labels
    container = pod["spec"]["containers"][0]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["spec"]["volumes"]}
    assert container["ports"][0]["containerPort"] == settings.server.port
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in ("/health/ready", "/health/live")
        assert asked["httpHeaders"][0]["value"] in settings.server.hosts
    grace = settings.server.drain_seconds + 5 + 5  # the supervisor's own grace, and the pause before the end
    assert pod["spec"]["terminationGracePeriodSeconds"] > grace
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_image_copies_what_is_there_and_starts_with_options_that_exist() -> None:
    lines = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text()).splitlines()
    instructions = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    let_in = {
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    }
    for word, rest in instructions:
        if word == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)
            assert {Path(source).parts[0] for source in sources} <= let_in
    given = dict(instructions)
    arguments = [*yaml.safe_load(given["ENTRYPOINT"])[1:], *yaml.safe_load(given["CMD"]), "--check"]
    outcome = CliRunner().invoke(app, arguments)
    assert "No such option" not in outcome.output
    assert "No such file" in str(outcome.exception) or outcome.exit_code != 0
    assert given["USER"].isdecimal()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    unit = (DEPLOY / "sfumato.service").read_text()
    unit = unit.replace("/opt/sfumato/bin/sfumato", shlex.quote(shutil.which("true") or "/bin/true"))
    (tmp_path / "sfumato.service").write_text(unit)
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "sfumato.service")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = [line for line in found.stderr.splitlines() if "sfumato.service" in line]
    assert said == []
