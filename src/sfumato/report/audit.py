"""An audit as a page a person can read; drawn from its JSON, so it can be drawn again later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.audit.reports import HOLDS, REFUTED
from sfumato.report.page import facts, page, paragraphs, section, table


def audit_page(data: Mapping[str, Any]) -> str:
    """Return the HTML page of an audit, from what :meth:`~sfumato.audit.AuditReport.to_json` gave."""
    colour = {HOLDS: "good", REFUTED: "bad"}.get(data["outcome"], "unclear")
    parts = [section("Verdict", paragraphs(data["verdict"], colour))]
    parts.append(section("What is promised", paragraphs([data["guarantee"]["statement"]])))
    if data["verification"]:
        parts.append(section("The claim, recomputed", facts(data["verification"])))
    elif data["not_verified"]:
        parts.append(section("The claim, recomputed", paragraphs([f"Not done: {data['not_verified']}."])))
    parts.append(section("Lower bounds on the loss", _bounds(data)))
    if data["attack"]:
        parts.append(section("What an attacker recovers", facts(data["attack"])))
    if data["deniability"]:
        parts.append(section("How far words change", facts(data["deniability"])))
    if data["texts"]:
        parts.append(section("What is left of the text", facts(data["texts"])))
    if data["document"]:
        document = {name: value for name, value in data["document"].items() if name != "statement"}
        parts.append(section("A whole document", paragraphs([data["document"]["statement"]]), facts(document)))
    return page(f"Audit: {data['subject']}", *parts)


def _bounds(data: Mapping[str, Any]) -> str:
    bounds = data["lower_bounds"]
    if not bounds:
        return paragraphs([f"None: {data['untested'] or 'nothing could be tested'}."])
    confidence = bounds[0]["confidence"]
    rows = [[one["claimed"], one["lower_bound"], one["trials"], one["refuted"]] for one in bounds]
    return paragraphs(
        [f"Together these hold with {confidence:.0%} confidence (Clopper and Pearson, shared among all of them)."]
    ) + table(("promised loss", "loss is at least", "trials", "refuted"), rows)
