"""Tables and figures of ``docs/training.md``, made from the JSON files of ``benchmarks/training.py``.

python benchmarks/training_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from setting import RESULTS
from sfumato.experiments.estimates import estimate

DOCS = Path(__file__).parent.parent / "docs"
PAGE, IMAGES = DOCS / "training.md", DOCS / "images"
SOUND = {"uedp": "users and entities (`uedp`)", "user": "users alone (`user`)"}
OTHERS = {
    "masked": "entities masked (`masked`)",
    "none, same sentences": "no noise, the sentences that limits keep",
    "none": "no noise (`none`)",
    "as published, f_E": "as published, f_E",
    "as published, f_E+": "as published, f_E+",
    "as released, f_E": "as released, f_E",
    "as released, f_E+": "as released, f_E+",
    "start": "public start",
}
NAMES = SOUND | OTHERS
TASKS = {"training_conll": "Next word, CoNLL-2003", "training_ag": "Topics, AG News"}
Estimates = dict[tuple[str, float], dict[str, Any]]


def summary(runs: dict[str, Any], figure: str = "figure") -> Estimates:
    """Return mean and interval over the seeds (or over all secrets of all seeds) of each method and epsilon."""
    grouped: dict[tuple[str, float], list[float]] = {}
    for one in runs.values():
        found = one[figure]
        grouped.setdefault((one["method"], one["epsilon"] or 0.0), []).extend(
            found if isinstance(found, list) else [found]
        )
    return {label: estimate(values) for label, values in grouped.items()}


def cell(one: dict[str, Any], scale: float = 1.0, digits: int = 1) -> str:
    """Return a mean with its interval."""
    half = 0.0 if one["high"] is None else one["high"] - one["mean"]
    return f"{scale * one['mean']:.{digits}f} ± {scale * half:.{digits}f}"


def table(header: list[str], lines: list[list[str]]) -> list[str]:
    """Return a Markdown table."""
    rule = ["---" if place == 0 else "---:" for place in range(len(header))]
    return ["| " + " | ".join(one) + " |" for one in (header, rule, *lines)] + [""]


def accounting(data: dict[str, Any]) -> list[str]:
    """Return the published epsilons, and the sound ones for the same noise."""
    published: dict[str, list[dict[str, Any]]] = {}
    for row in data["published"]:
        published.setdefault(row["corpus"], []).append(row)
    limits = list(dict.fromkeys(row["limits"] for row in data["sound"]))
    lines = []
    for corpus, rows in published.items():
        sound = {row["limits"]: row["epsilon"] for row in data["sound"] if row["corpus"] == corpus}
        repeated = [f"{row['printed']:.2f} / {row['repeated']:.3f}" for row in rows]
        lines.append([corpus, *repeated, *(f"**{sound[limit]:.2f}**" for limit in limits)])
    return table(["corpus", "f_E", "f_E+", "users", *(f"sound, limits {limit}" for limit in limits)], lines)


def task(name: str, data: dict[str, Any]) -> list[str]:
    """Return the figures of one task."""
    means = summary(data["runs"])
    scale, unit = (1.0, "perplexity") if data["measure"] == "perplexity" else (100.0, "errors, %")
    used = {(one["method"], one["epsilon"] or 0.0): one["sentences"] for one in data["runs"].values()}
    unsound = [one for one in data["runs"].values() if one["method"].startswith("as ")]
    claimed = {one["method"]: one["claimed"] for one in unsound}
    lines = []
    for (method, epsilon), one in means.items():
        said = f"{epsilon:g}" if epsilon else f"({claimed[method]:.2f}, no bound)" if method in claimed else "none"
        lines.append([NAMES[method], said, f"{used[method, epsilon]:,}", cell(one, scale)])
    lines.append([NAMES["start"], "0", "0", f"{scale * data['start']:.1f}"])
    return [
        f"### {TASKS[name]}",
        "",
        f"{data['sentences']:,} sentences of {data['users']:,} users, {data['held_out']:,} held out, a vocabulary of "
        f"{data['vocabulary']:,}, {data['parameters']:,} parameters that are trained; mean and 95 % t-interval over "
        f"{means['uedp', 8.0]['n']} seeds, delta 1e-5.",
        "",
        f"![Held-out {data['measure']} against epsilon](images/{name.replace('_', '-')}.svg)",
        "",
        *table(["method", "epsilon", "sentences used", unit], lines),
    ]


def canary(data: dict[str, Any]) -> list[str]:
    """Return what the canaries betray."""
    exposed, held_out = summary(data["runs"], "exposures"), summary(data["runs"], "held_out")
    seeds = len({one["seed"] for one in data["runs"].values()})
    lines = [
        [
            NAMES[method],
            f"{epsilon:g}" if epsilon else "0" if method == "start" else "none",
            cell(one, digits=2),
            cell(held_out[method, epsilon]),
        ]
        for (method, epsilon), one in exposed.items()
    ]
    return [
        f"{data['canaries']} numbers of {data['digits']} digits a seed, each in {data['copies']} sentences of as many users; "
        f"{seeds} seeds, 95 % t-intervals over all secrets. Without any leak the mean exposure is "
        f"**{data['no_leak']:.4f}** bits; a number that is the likeliest of all has {data['digits'] * 3.3219:.1f}.",
        "",
        "![Mean exposure of inserted secrets](images/training-canary.svg)",
        "",
        *table(["method", "epsilon", "mean exposure, bits", "held-out perplexity"], lines),
    ]


def put(name: str, lines: list[str]) -> None:
    """Write lines between the markers of that name."""
    text = PAGE.read_text(encoding="utf-8")
    opening, closing = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = text.split(opening)
    inside = "\n".join(lines).rstrip()
    PAGE.write_text(f"{before}{opening}\n{inside}\n{closing}{rest.split(closing)[1]}", encoding="utf-8")


def draw_task(name: str, data: dict[str, Any]) -> None:
    """Draw the figure of merit against epsilon."""
    from matplotlib.figure import Figure

    means = summary(data["runs"])
    chart = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = chart.subplots()
    epsilons = sorted({epsilon for method, epsilon in means if method in SOUND})
    for method in SOUND:
        points = sorted((epsilon, one) for (label, epsilon), one in means.items() if label == method)
        y = [one["mean"] for _, one in points]
        reach = [one["mean"] - (one["mean"] if one["low"] is None else one["low"]) for _, one in points]
        axes.errorbar([epsilon for epsilon, _ in points], y, yerr=reach, marker="o", capsize=3, label=method)
    others = [(label, one) for (label, _), one in means.items() if label not in SOUND]
    for place, (label, one) in enumerate(others):
        axes.axhline(one["mean"], linestyle="--", linewidth=1, color=f"C{place + 2}", label=label)
        if one["low"] is not None:
            axes.axhspan(one["low"], one["high"], color=f"C{place + 2}", alpha=0.12, linewidth=0)
    axes.axhline(data["start"], linestyle=":", color="black", label="public start")
    axes.set_xscale("log", base=2)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set(xlabel="epsilon (delta 1e-5)", ylabel=f"held-out {data['measure']}", title=TASKS[name])
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    chart.savefig(IMAGES / f"{name.replace('_', '-')}.svg", metadata={"Date": None})


def draw_canary(data: dict[str, Any]) -> None:
    """Draw the mean exposure of each method."""
    from matplotlib.figure import Figure

    means = summary(data["runs"], "exposures")
    chart = Figure(figsize=(7.0, 2.8), layout="constrained")
    axes = chart.subplots()
    names = [f"{method}, epsilon {epsilon:g}" if epsilon else method for method, epsilon in means]
    reach = [one["mean"] - (one["mean"] if one["low"] is None else one["low"]) for one in means.values()]
    axes.barh(names, [one["mean"] for one in means.values()], xerr=reach, capsize=3, color="#7a9cc6")
    axes.axvline(data["no_leak"], linestyle="--", color="black", label=f"no leak: {data['no_leak']:.4f}")
    axes.invert_yaxis()
    axes.set(xlabel="mean exposure of the inserted secrets (bits)", title="What a canary betrays")
    axes.legend(fontsize=8)
    chart.savefig(IMAGES / "training-canary.svg", metadata={"Date": None})


def read(name: str) -> dict[str, Any]:
    """Return a file of results."""
    data: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return data


def _measured(name: str) -> bool:
    return (RESULTS / f"{name}.json").exists()


def write() -> None:
    """Write all tables and draw all figures."""
    import matplotlib

    matplotlib.rcParams.update({"svg.hashsalt": "sfumato", "font.size": 9})
    put("training accounting", accounting(read("training_published")))
    lines = []
    for name in (name for name in TASKS if _measured(name)):
        lines += task(name, read(name))
        draw_task(name, read(name))
    put("training figures", lines)
    if _measured("training_canary"):
        put("training canary", canary(read("training_canary")))
        draw_canary(read("training_canary"))


if __name__ == "__main__":
    write()
