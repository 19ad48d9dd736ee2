"""``sfumato latent`` as its users run it: serve, train, query; and a server that is killed."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Program

pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from server_support import taken

GOOD = ("wonderful", "warm", "moving", "brilliant", "excellent", "delightful")
BAD = ("terrible", "dull", "boring", "awful", "poor", "worst")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """``sfumato latent serve`` in a process of its own; its address once it takes requests."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sfumato.cli.app", "latent", "serve", str(folder), "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        url = next((line.split()[-1] for line in process.stdout if line.startswith("listening on ")), "")
        assert url
        yield url, process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=30)
        process.stdout.close()


def reviews(path: Path, count: int, columns: tuple[str, str] = ("review", "verdict"), seed: int = 1) -> Path:
    draws = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        for _ in range(count):
            good = bool(draws.integers(2))
            table.writerow(
                [f"the film was {' and '.join(draws.choice(GOOD if good else BAD, 2))}", "good" if good else "bad"]
            )
    return path


TASK = ("--encoder", "words", "--classes", "bad,good", "--epsilon", "300", "--clip", "1.5")


def test_a_task_from_end_to_end(program: Program, tmp_path: Path) -> None:
    file, ledger = reviews(tmp_path / "reviews.csv", 1200), tmp_path / "budgets.db"
    assert program("budget", "create", "ada", "--kind", "gaussian", "--limit", "5000000", "--ledger", ledger).code == 0
    paying = ("--ledger", ledger, "--subject", "ada")
    with serving(tmp_path / "task", *TASK) as (url, _):
        early = program("latent", "query", url, "warm and moving", "--epsilon", "300")
        assert early.code == 2
        assert "409" in early.err
        trained = program(
            "latent", "train", url, file, "--text", "review", "--label", "verdict", "--epsilon", "300", *paying
        )
        assert (trained.code, trained.err) == (0, "")
        assert "1,200 noisy vectors sent; trained on 1,200" in trained.out
        assert "Telling two neighbouring inputs apart" in trained.out
        sentences = ("a warm, wonderful, moving film", "a dull, awful, boring film")
        local = program("latent", "query", url, *sentences, "--epsilon", "300", "--at-home")
        assert [line.split("\t")[0] for line in local.out.splitlines()] == ["good", "bad"]
        asked = program(
            "latent", "query", url, "--input", file, "--text", "review", "--epsilon", "300", "--json", *paying
        )
        assert (asked.code, asked.err) == (0, "")
        with file.open() as stream:
            truth = [row["verdict"] for row in csv.DictReader(stream)]
        answers = [json.loads(line)["class"] for line in asked.out.splitlines()]
        assert np.mean([one == two for one, two in zip(answers, truth, strict=True)]) > 0.7
        assert not any(word in asked.out for word in (*GOOD, *BAD))
        shown = json.loads(program("budget", "show", "ada", "--ledger", ledger, "--json").out)
        plan = json.loads((tmp_path / "task" / "terms.json").read_text())["plan"]
        spent = 2400 * (2 * plan["clip"] / plan["scale"]) ** 2
        assert spent == pytest.approx(
            float((shown[0] if isinstance(shown, list) else shown["budgets"][0])["spent"]), rel=1e-6
        )
    again = program("latent", "serve", tmp_path / "task", *TASK)
    assert again.code == 2
    assert "holds a task already" in again.err


def test_directions_of_public_sentences_make_a_small_epsilon_enough(program: Program, tmp_path: Path) -> None:
    """One number in place of hundreds, and a clipping norm from the same public file."""
    public = reviews(tmp_path / "public.csv", 150, ("text", "label"), seed=2)
    task = ("--encoder", "words", "--classes", "bad,good", "--epsilon", "6", "--directions-from", str(public))
    file = reviews(tmp_path / "reviews.csv", 300)
    with serving(tmp_path / "task", *task) as (url, _):
        command = ("latent", "train", url, file, "--text", "review", "--label", "verdict", "--epsilon", "6")
        for _ in range(2):  # a second time with the same key: nothing new is sent
            trained = program(*command, "--run-key", tmp_path / "run.key")
            assert "300 noisy vectors sent; trained on 300" in trained.out
        sentences = ("a warm, wonderful, moving film", "a dull, awful, boring film")
        local = program("latent", "query", url, *sentences, "--epsilon", "6", "--at-home")
        assert [line.split("\t")[0] for line in local.out.splitlines()] == ["good", "bad"]
    terms = json.loads((tmp_path / "task" / "terms.json").read_text())
    assert terms["plan"]["dimension"] == 1
    assert terms["plan"]["clip"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("serve {new} --encoder words --classes a,b --epsilon 1 --clip 1 --clip-from x", "not both"),
        (
            "serve {new} --encoder words --classes a,b --epsilon 1 --directions-from x.csv --pairs",
            "leave it out for pairs",
        ),
        ("serve {new}", "a new task needs --encoder"),
        ("serve {new} --encoder words --classes a,b --epsilon 1", "--clip or --clip-from"),
        ("serve {new} --encoder nowhere --classes a,b --epsilon 1 --clip 1", "a folder"),
        ("serve {new} --encoder words --classes a --epsilon 1 --clip 1", "different names"),
        ("serve {new} --encoder words --classes a,b --epsilon nan --clip 1", "epsilon"),
        ("query http://127.0.0.1:9 --epsilon 1", "either sentences or --input"),
        ("query http://127.0.0.1:9 hidden --epsilon 1 --subject x", "go together"),
    ],
)
def test_what_is_wrong_is_said(program: Program, tmp_path: Path, arguments: str, message: str) -> None:
    outcome = program("latent", *[one.replace("{new}", str(tmp_path / "new")) for one in arguments.split()])
    assert outcome.code == 2
    assert message in outcome.err
    assert "hidden" not in outcome.err


def test_labels_of_no_class_are_named_by_their_record(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("review,verdict\nwarm film,good\ncold film,secretword\n")
    with serving(tmp_path / "task", *TASK) as (url, _):
        command = ("latent", "train", url, file, "--text", "review", "--label", "verdict", "--epsilon", "300")
        outcome = program(*command)
        assert outcome.code == 2
        assert "record 1 is none of bad, good" in outcome.err
        assert "secretword" not in outcome.err
        assert program(*command[:-1], "1").code == 2
        assert program("latent", "train", url, "reviews.docx", *command[4:]).code == 2


def test_a_killed_server_loses_no_accepted_batch(tmp_path: Path) -> None:
    """Killed with SIGKILL while 8 clients send; every batch that was acknowledged is there, exactly as it was sent."""
    import httpx

    from sfumato.latent.service.store import VectorStore
    from sfumato.latent.service.trainer import VECTORS, read_terms

    folder = tmp_path / "task"
    acknowledged: dict[int, list[list[float]]] = {}
    uncertain: dict[int, list[list[float]]] = {}
    lock = threading.Lock()

    def send(url: str, client_number: int, enough: threading.Event, killed: threading.Event) -> None:
        draws = np.random.default_rng(client_number)
        with httpx.Client(base_url=url, trust_env=False, timeout=20) as client:
            for turn in range(10_000):
                number = client_number * 100_000 + turn
                rows = np.round(draws.normal(size=(5, 128)) * 0.05, 4).tolist()
                try:
                    answer = client.put(f"/batches/{number}", json={"vectors": rows, "labels": [0, 1, 0, 1, 1]})
                except httpx.TransportError:
                    with lock:
                        uncertain[number] = rows
                    return
                with lock:
                    assert answer.status_code == 201
                    acknowledged[number] = rows
                    if len(acknowledged) > 60:
                        enough.set()
                if killed.is_set():
                    return

    for round_number in range(2):
        with serving(folder, *(TASK if round_number == 0 else ())) as (url, process):
            enough, killed = threading.Event(), threading.Event()
            first = 1 + 8 * round_number
            senders = [
                threading.Thread(target=send, args=(url, place, enough, killed)) for place in range(first, first + 8)
            ]
            for sender in senders:
                sender.start()
            assert enough.wait(60)
            assert taken(url, b"GET /task HTTP/1.1\r\nx: ", 20_000_000) < 20_000_000  # a head does not fill the memory
            process.send_signal(signal.SIGKILL)
            killed.set()
            for sender in senders:
                sender.join(30)
    assert len(acknowledged) > 60
    store = VectorStore(folder / VECTORS, read_terms(folder).plan.dimension)
    kept: dict[int, Any] = {batch.number: batch.vectors for batch in store.batches()}
    store.close()
    assert set(acknowledged) <= set(kept) <= set(acknowledged) | set(uncertain)
    sent = acknowledged | uncertain
    assert all((vectors == np.array(sent[number], dtype=np.float32)).all() for number, vectors in kept.items())
