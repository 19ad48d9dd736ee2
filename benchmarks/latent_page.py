"""Tables and figure of ``docs/latent.md``, made from ``results/latent_accuracy.json`` and ``results/latent_service.json``.

python benchmarks/latent_page.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setting import RESULTS

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURE = DOCS / "latent.md", DOCS / "images" / "latent-accuracy.svg"
MODES = ("release once", "fresh each epoch", "as_published")
NAMES = {"imdb": "IMDB", "sst2": "SST-2", "direction": "one direction", "minilm": "384 numbers"}
Row = dict[str, Any]


def cell(row: Row | None, score: str = "accuracy") -> str:
    """Return a score with its interval, in per cent."""
    if row is None:
        return ""
    return f"{100 * row[score]:.1f} ± {100 * row[f'{score}_half_width']:.1f}"


def where(rows: list[Row], **wanted: Any) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def table(header: list[str], lines: list[list[str]]) -> list[str]:
    """Return a Markdown table."""
    rule = ["---" if place == 0 else "---:" for place in range(len(header))]
    return ["| " + " | ".join(one) + " |" for one in (header, rule, *lines)] + [""]


def first(rows: list[Row]) -> Row | None:
    """Return the only row, or None."""
    return rows[0] if rows else None


def grid(
    rows: list[Row], across: str, label: Callable[[Any], str], score: str = "accuracy", **wanted: Any
) -> list[list[str]]:
    """Return a line for each data set, encoder and epsilon, and a column for each value of ``across``."""
    chosen = where(rows, **wanted)
    values = list(dict.fromkeys(row[across] for row in chosen))
    keys = dict.fromkeys((row["dataset"], row["encoder"], row["epsilon"]) for row in chosen)
    lines = []
    for dataset, encoder, epsilon in keys:
        found = where(chosen, dataset=dataset, encoder=encoder, epsilon=epsilon)
        cells = [cell(first(where(found, **{across: value})), score) for value in values]
        lines.append([f"{NAMES[dataset]}, {NAMES[encoder]}", f"{epsilon:g}", *cells])
    return table(["data, encoder", "epsilon", *map(label, values)], lines)


def accounting(rows: list[Row]) -> list[str]:
    """Return the table of the three ways of accounting."""
    lines = []
    for row in where(rows, mode=MODES[0]):
        same = {name: row[name] for name in ("dataset", "encoder", "epsilon")}
        others = [first(where(rows, mode=mode, **same)) for mode in MODES]
        sound = f"{others[2]['sound_epsilon']:.1f}" if others[2] else ""
        lines.append(
            [f"{NAMES[row['dataset']]}, {NAMES[row['encoder']]}", f"{row['epsilon']:g}", *map(cell, others), sound,
             cell(row, "local_accuracy")]
        )  # fmt: skip
    head = [
        "data, encoder",
        "epsilon",
        "release once",
        "fresh each epoch",
        "as published",
        "true epsilon of it",
        "asked at home",
    ]
    return table(head, lines)


def with_grid(rows: list[Row] | None, across: str, *options: Any, **wanted: Any) -> tuple[list[Row], list[str]]:
    """Return rows together with their grid; nothing where they have not been measured."""
    chosen = where(rows or [], **wanted)
    return chosen, grid(chosen, across, *options, **wanted)


def figures(data: Row) -> list[str]:
    """Return the tables of what privacy costs."""
    tables, counts = data["tables"], data["records"]
    best = "; ".join(
        f"{NAMES[row['dataset']]}, {NAMES[row['encoder']]}: {cell(row)} %" for row in data["without_noise"]
    )
    lines = [
        f"Accuracy in per cent, mean and 95 % t-interval over {len(data['config']['seeds'])} seeds (3 for whole vectors, but "
        f"for the table of the accounting), at delta {data['config']['delta']:g}.",
        "",
        f"- IMDB: {counts['imdb']:,} reviews, a fifth of them for testing, split anew for each seed. SST-2: "
        f"{counts['sst2_train']:,} and {counts['sst2_dev']} sentences.",
        f"- The encoder is all-MiniLM-L6-v2, frozen, on the first {data['word_pieces']} word pieces: 384 numbers.",
        '- "One direction" maps them to one number with a classifier fitted on other, public reviews (Rotten Tomatoes for IMDB, '
        "IMDB for SST-2). The clipping norm is the median norm of those public vectors.",
        '- Test queries are noised like everything else, except under "asked at home", where the owner fetches the head.',
        "",
        *([f"Without any noise: {best}.", ""] if best else []),
        "![Accuracy against epsilon](images/latent-accuracy.svg)",
        "",
    ]
    share = lambda value: f"{100 * value:g} %"  # noqa: E731
    sampled, published = {"mode": "secret sample, one round"}, {"mode": "as_published, ten epochs"}
    sampling = tables.get("sampling", [])
    sections: list[tuple[str, list[Row], list[str]]] = [
        ("### Three ways of accounting", tables["accounting"], accounting(tables["accounting"])),
        ("### Gaussian and Laplace noise, released once", *with_grid(tables.get("distribution"), "distribution", str)),
        (
            "### Clipping norm, as a multiple of the public median",
            *with_grid(tables.get("clip"), "clip_factor", lambda value: f"{value:g}"),
        ),
        (
            "### Share of sentences that takes part\n\nOne round by secret sampling:",
            *with_grid(sampling, "rate", share, **sampled),
        ),
        ("Asked at home:", *with_grid(sampling, "rate", share, "local_accuracy", **sampled)),
        (
            "The published accounting, ten epochs' worth of sampled steps:",
            *with_grid(sampling, "rate", share, **published),
        ),
        (
            "All sentences in one shuffled batch (which hides a vector among those of its own label):",
            *with_grid(sampling, "rate", share, mode="shuffled batch"),
        ),
        (
            "### Labels by randomised response",
            *with_grid(
                tables.get("labels"),
                "label_epsilon",
                lambda value: "public" if value is None else f"epsilon {value:g}",
            ),
        ),
        (
            f"### Noise on tokens or on the sentence (SST-2, up to {data['token_table_pieces']} word pieces)",
            *with_grid(tables.get("position"), "position", str),
        ),
    ]
    for title, rows, shown in sections:
        lines += [title, "", *shown] if rows else []
    return [*lines, f"{data['machine']}, commit {data['commit']}; `benchmarks/latent_accuracy.py`.", ""]


def compared(rows: list[Row], key: str, one: Any, other: Any, same: tuple[str, ...], **wanted: Any) -> list[str]:
    """Return in how many cells one value of ``key`` is above another by more than both intervals, and below."""
    above = below = cells = 0
    for row in where(rows, **{key: one}, **wanted):
        found = first(where(rows, **{key: other}, **{name: row[name] for name in same}))
        if found is None:
            continue
        cells += 1
        gap = row["accuracy"] - found["accuracy"]
        width = row["accuracy_half_width"] + found["accuracy_half_width"]
        above, below = above + (gap > width), below + (-gap > width)
    return [str(above), str(below), str(cells)]


def orderings(data: Row) -> list[str]:
    """Return the order of every published comparison, counted in the figures."""
    tables, lines = data["tables"], []
    same = ("dataset", "encoder", "epsilon")
    encoders = [(name, NAMES[name]) for name in data["config"]["encoders"]]
    for encoder, title in encoders:
        rows = where(tables["accounting"], encoder=encoder)
        if not rows:
            continue
        greatest, least = max(row["epsilon"] for row in rows), min(row["epsilon"] for row in rows)
        for mode in MODES:
            found = compared(rows, "epsilon", greatest, least, ("dataset", "encoder", "mode"), mode=mode)
            lines.append([f"4.2: epsilon {greatest:g} above {least:g}, {mode}; {title}", *found])
        for other in MODES[:2]:
            found = compared(rows, "mode", "as_published", other, same)
            lines.append([f"4.2: as published above {other}; {title}", *found])
    for encoder, title in encoders:
        rows = where(tables.get("position", []), encoder=encoder)
        lines += [
            [f"4.5: {kind} above sentence; {title}", *compared(rows, "position", kind, "sentence", same)]
            for kind in ("token, as published", "token")
        ]
    for encoder, title in encoders:
        rows = where(tables.get("distribution", []), encoder=encoder)
        lines.append(
            [f"4.6: Gaussian above Laplace; {title}", *compared(rows, "distribution", "gaussian", "laplace", same)]
        )
    for encoder, title in encoders:
        rows = where(tables.get("sampling", []), encoder=encoder)
        for mode in ("as_published, ten epochs", "secret sample, one round"):
            found = compared(rows, "rate", 0.01, 1.0, (*same, "mode"), mode=mode)
            lines.append([f"4.7: 1 % above 100 %, {mode}; {title}", *found])
    lines = [line for line in lines if line[-1] != "0"]
    return table(["comparison", "clearly above", "clearly below", "of"], lines)


def server(data: Row) -> list[str]:
    """Return what the server keeps in a second."""
    rows = [
        [
            str(row["vectors_per_request"]),
            f"{row['vectors_per_second']:,.0f}",
            f"{row['median_ms']:.1f}",
            f"{row['p99_ms']:.1f}",
        ]
        for row in data["server"]
    ]
    whole = data["whole_clients"]
    return [
        "### The server",
        "",
        f"{data['clients']} clients at once over the loopback, {data['dimension']} numbers a vector, every batch flushed to the "
        f"disk before it is acknowledged; best of {data['rounds']} rounds:",
        "",
        *table(["vectors in a request", "vectors per second", "median ms", "99 % ms"], rows),
        f"{data['clients']} clients of this library, which also clip, draw cryptographic noise and write JSON on the same "
        f"machine: {whole['vectors_per_second']:,.0f} vectors per second.",
        "",
        f"{data['machine']}, commit {data['commit']}; `benchmarks/latent_service.py`.",
        "",
    ]


def put(name: str, lines: list[str]) -> None:
    """Write lines between the markers of that name."""
    text = PAGE.read_text(encoding="utf-8")
    opening, closing = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = text.split(opening)
    PAGE.write_text(
        f"{before}{opening}\n{chr(10).join(lines).rstrip()}\n{closing}{rest.split(closing)[1]}", encoding="utf-8"
    )


def draw(data: Row) -> None:
    """Draw accuracy against epsilon for the three ways of accounting."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for line, dataset in zip(panels, data["config"]["datasets"], strict=True):
        for panel, encoder in zip(line, data["config"]["encoders"], strict=True):
            rows = where(data["tables"]["accounting"], dataset=dataset, encoder=encoder)
            for mode, marker in zip(MODES, "osD", strict=True):
                points = where(rows, mode=mode)
                panel.errorbar(
                    [row["epsilon"] for row in points], [row["accuracy"] for row in points],
                    [row["accuracy_half_width"] for row in points], marker=marker, markersize=4, capsize=2,
                    linestyle="--" if mode == "as_published" else "-",
                    label=mode + (" (no bound)" if mode == "as_published" else ""),
                )  # fmt: skip
            points = where(rows, mode=MODES[0])
            panel.plot([row["epsilon"] for row in points], [row["local_accuracy"] for row in points], ":", color="grey",
                       label="release once, asked at home")  # fmt: skip
            panel.axhline(0.5, color="black", linewidth=0.6)
            panel.set(title=f"{NAMES[dataset]}, {NAMES[encoder]}", xscale="log", ylim=(0.45, 0.85))
            panel.set_xticks(data["config"]["epsilons"], [f"{one:g}" for one in data["config"]["epsilons"]])
            panel.grid(alpha=0.25)
    panels[0][0].legend(fontsize=8)
    figure.supxlabel("epsilon that is claimed")
    figure.supylabel("accuracy on noisy queries")
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    measured = json.loads((RESULTS / "latent_accuracy.json").read_text())
    served = RESULTS / "latent_service.json"
    put("latent orderings", orderings(measured))
    put("latent figures", figures(measured) + (server(json.loads(served.read_text())) if served.exists() else []))
    draw(measured)
