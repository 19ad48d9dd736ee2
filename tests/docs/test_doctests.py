"""Every example in a docstring of the package runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import sfumato

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _modules() -> list[str]:
    found = (module.name for module in pkgutil.walk_packages(sfumato.__path__, "sfumato.", onerror=lambda name: None))
    return ["sfumato", *sorted(found)]


@pytest.mark.parametrize("name", _modules())
def test_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "sfumato") and not isinstance(error, sfumato.SfumatoError):
            raise
        pytest.skip(f"an extra is not installed: {error}")
    failed, _ = doctest.testmod(module, optionflags=FLAGS, verbose=False)
    assert failed == 0, "the report of the failed examples is above"


def test_the_package_has_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = ("sfumato", "sfumato.space.space", "sfumato.text.tokens", "sfumato.mechanism.exponential")
    for name in names:
        assert any(test.examples for test in finder.find(importlib.import_module(name))), name
