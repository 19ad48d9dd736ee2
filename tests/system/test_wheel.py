"""What is installed: the wheel, built from this checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEGABYTE = 1_000_000
SPACE_LIMIT, WHEEL_LIMIT = 6 * MEGABYTE, 8 * MEGABYTE


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode and "hatchling" in built.stderr:
        pytest.skip("the tools that build a wheel cannot be fetched here")
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}
    top = {name.partition("/")[0] for name in sizes}
    assert top == {"sfumato", wheel.name.rpartition("-py3")[0] + ".dist-info"}
    tracked = subprocess.run(
        ["git", "ls-files", "src/sfumato"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    missing = [name for name in tracked if name.removeprefix("src/") not in sizes]
    assert missing == []


def test_the_default_space_and_the_wheel_are_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        data = [one for one in archive.infolist() if one.filename.startswith("sfumato/space/data/")]
    assert data
    assert sum(one.file_size for one in data) <= SPACE_LIMIT
    assert wheel.stat().st_size <= WHEEL_LIMIT
