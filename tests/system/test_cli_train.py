"""``sfumato train``: plans that are written down, runs that go on, and a charge that is made once."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'training' is not installed")
pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")

from sfumato.cli.app import main
from sfumato.ledger import Ledger
from sfumato.training.neural import checkpoint
from sfumato.training.neural.files import load_model, read_note

PLAN = """
[data]
train = "train.csv"
held_out = "test.csv"
protect = ["numbers"]
length = 10

[model]
words = 150
embedding = 8
hidden = 8
layers = 1

[privacy]
method = "uedp"
noise = 6.0
rate = 0.5
steps = 4
per_user = 3
per_entity = 2

[training]
optimizer = "sgd"
learning_rate = 1.0
every = 2
"""


def write(folder: Path, plan: str = PLAN) -> Path:
    for name, count in (("train.csv", 60), ("test.csv", 12)):
        rows = [f"the house number {n % 30} is good,u{n % 15},{n % 2}" for n in range(count)]
        (folder / name).write_text("text,user,topic\n" + "\n".join(rows) + "\n")
    path = folder / "plan.toml"
    path.write_text(plan)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = main(["train", *arguments, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else {}, captured.err


def test_a_dry_run_prints_the_guarantee_and_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    code, found, _ = run(capsys, str(path), "--dry-run")
    assert code == 0
    assert found["epsilon"] > 0
    assert "the sentences of one user" in found["guarantee"]
    assert found["sentences"]["most_of_a_user"] <= 3
    assert sorted(one.name for one in tmp_path.iterdir()) == ["plan.toml", "test.csv", "train.csv"]


def test_a_plan_is_trained_logged_and_saved_with_its_guarantee(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    _, planned, _ = run(capsys, str(path), "--dry-run")
    code, found, error = run(capsys, str(path))
    assert code == 0, error
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [row["step"] for row in rows] == ["2", "4"]
    assert 0 < float(rows[0]["epsilon"]) < float(rows[1]["epsilon"]) == pytest.approx(planned["epsilon"])
    assert float(rows[1]["held_out"]) == pytest.approx(found["held_out"])
    model = load_model(tmp_path / "model.safetensors")
    assert model.guarantee.statement() == planned["guarantee"]
    assert model.guarantee.secure
    assert not (tmp_path / "run" / "secret.key").exists(), "the key is forgotten with the run"
    assert "step 4 of 4: epsilon" in error
    code, _, error = run(capsys, str(path))
    assert code == 2
    assert "there already" in error


class _StoppedError(Exception):
    """The machine stops."""


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the next run stop after so many checkpoints."""
    keep, seen = checkpoint.keep, []

    def stopping(trainer: Any, folder: Path) -> None:
        keep(trainer, folder)
        seen.append(trainer.step)
        if len(seen) == after:
            monkeypatch.setattr(checkpoint, "keep", keep)
            raise _StoppedError

    monkeypatch.setattr(checkpoint, "keep", stopping)


def test_an_interrupted_run_goes_on_and_is_charged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    ledger = str(tmp_path / "budgets.db")
    path = write(tmp_path, PLAN + f'\n[ledger]\naddress = "{ledger}"\nsubject = "corpus"\n')
    limits = ["--kind", "approximate", "--limit", "10", "--delta-limit", "0.001"]
    assert main(["budget", "create", "corpus", "--ledger", ledger, *limits]) == 0
    capsys.readouterr()
    interrupted(monkeypatch, after=3)
    assert main(["train", str(path)]) == 70
    capsys.readouterr()
    assert (tmp_path / "run" / "secret.key").exists()
    code, found, error = run(capsys, str(path))
    assert code == 0, error
    assert len(list(csv.DictReader((tmp_path / "log.csv").open()))) == 2
    with Ledger.open(ledger) as opened:
        assert len(list(opened.history("corpus"))) == 1
    assert found["epsilon"] < 10


def test_a_budget_that_is_too_small_stops_the_run_before_its_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    ledger = str(tmp_path / "budgets.db")
    path = write(tmp_path, PLAN + f'\n[ledger]\naddress = "{ledger}"\nsubject = "corpus"\n')
    limits = ["--kind", "approximate", "--limit", "0.01", "--delta-limit", "0.001"]
    assert main(["budget", "create", "corpus", "--ledger", ledger, *limits]) == 0
    capsys.readouterr()
    code, _, error = run(capsys, str(path))
    assert code == 2
    assert "budget" in error
    assert not (tmp_path / "log.csv").exists()
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("method", ["none", "masked", "user", "uedp-as-published"])
def test_the_baselines_run_from_a_file_as_well(method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = PLAN.replace('"uedp"', f'"{method}"').replace("steps = 4", "steps = 2")
    code, found, error = run(capsys, str(write(tmp_path, plan)), "--seed", "1")
    if method == "uedp-as-published":
        assert code == 2
        assert "allow_unsound" in error
        plan = plan.replace("noise = 6.0", "noise = 6.0\nallow_unsound = true")
        code, found, error = run(capsys, str(write(tmp_path, plan)), "--seed", "1")
    assert code == 0, error
    note = read_note(tmp_path / "model.safetensors")
    assert note["plan"].method == method
    assert note["guarantee"].sound == (method != "uedp-as-published")
    assert ("UNSOUND" in found["guarantee"]) == (method == "uedp-as-published")


def test_a_classifier_learns_from_the_labels_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = PLAN.replace("layers = 1", "layers = 1\nclasses = 2").replace(
        'protect = ["numbers"]', 'protect = ["numbers"]\nlabel = "topic"'
    )
    code, found, error = run(capsys, str(write(tmp_path, plan)), "--seed", "1")
    assert code == 0, error
    assert 0 <= found["held_out"] <= 1


def hub_folder(folder: Path, kind: str) -> None:
    """Write a small Hugging Face model with its tokenizer, as if it had been downloaded."""
    transformers = pytest.importorskip("transformers", reason="the extra 'training' is not installed")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "house", "number", "is", "good"]
    (folder / "vocab.txt").write_text("\n".join([*words, *map(str, range(30))]))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "network")
    sizes = {"vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    if kind == "causal":
        config = transformers.GPT2Config(vocab_size=40, n_embd=8, n_layer=1, n_head=2, n_positions=16)
        transformers.GPT2LMHeadModel(config).save_pretrained(folder / "network")
    else:
        config = transformers.BertConfig(intermediate_size=8, **sizes)
        transformers.BertModel(config).save_pretrained(folder / "network")


@pytest.mark.parametrize(("kind", "options"), [("causal", ""), ("encoder", "classes = 2")])
def test_hugging_face_models_are_trained_through_adapters(
    kind: str, options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub_folder(tmp_path, kind)
    model = f'kind = "{kind}"\nsource = "network"\nadapters = 2\n{options}'
    plan = PLAN.replace("words = 150\nembedding = 8\nhidden = 8\nlayers = 1", model)
    if kind == "encoder":
        plan = plan.replace('protect = ["numbers"]', 'protect = ["numbers"]\nlabel = "topic"')
    code, found, error = run(capsys, str(write(tmp_path, plan)), "--seed", "1")
    assert code == 0, error
    assert found["held_out"] > 0
    guarantee = read_note(tmp_path / "model.safetensors")["guarantee"]
    assert guarantee.sound
    assert guarantee.epsilon == pytest.approx(found["epsilon"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("per_user = 3", "per_usre = 3"), "per_user"),
        (("[training]", "[trainig]"), "training"),
        (('protect = ["numbers"]', ""), "needs protect"),
        (("noise = 6.0", "noise = 6.0\nepsilon = 3"), "either epsilon"),
        (("rate = 0.5\n", ""), "needs rate"),
        (('"uedp"', '"eudp"'), "method"),
        (("noise = 6.0", "noise = 6.0\nbudget = 0.001"), "not even one step"),
    ],
)
def test_mistakes_in_a_plan_are_named(
    change: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(capsys, str(write(tmp_path, PLAN.replace(*change))), "--dry-run")
    assert code == 2
    assert message in error
    assert "house" not in error
