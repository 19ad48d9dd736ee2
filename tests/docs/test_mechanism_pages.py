"""Every mechanism has a page that says what a reader must know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sfumato

PAGES = Path(__file__).resolve().parents[2] / "docs" / "mechanisms"
NAMES = {"laplace": "multivariate-laplace"}
WITHOUT_EPSILON = ("random", "identity")


@pytest.mark.parametrize("name", [*(one.name for one in sfumato.mechanisms()), "digits", "smdp"])
def test_the_page_of_a_mechanism_is_complete(name: str) -> None:
    page = (PAGES / f"{NAMES.get(name, name)}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    if name != "truncated-gumbel":  # nothing that it claims to protect is protected
        assert "What it does not protect" in headings
    assert "When to use it" in headings
    assert any(heading.lower().startswith(("the published", "published")) for heading in headings) or (
        name in WITHOUT_EPSILON
    )
    assert "```python" in page
    assert "| guarantee |" in page or name == "smdp"
