"""Steps are computed once and read back, results are plain data, and estimates have the intervals they claim."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato.audit.prior import Prior
from sfumato.experiments import Run, experiment, experiments, load_result
from sfumato.experiments.base import Line
from sfumato.experiments.data import load_texts, synthetic
from sfumato.experiments.estimates import clearly_above, estimate
from sfumato.experiments.riecker_tables import CHOOSES, EXPERIMENT, INVALID, Config, Row, _Bench, mean_vectors, rows
from sfumato.experiments.subjects import Subject, attack_success, bisected, certified, compiled
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.mechanism.vector import VectorMechanism
from sfumato.space import Space

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
SPACE = Space.load("default", limit=120)


def test_a_step_is_computed_once_for_its_parameters(tmp_path: Path) -> None:
    asked: list[int] = []

    def compute() -> dict[str, int]:
        asked.append(1)
        return {"found": len(asked)}

    for _ in range(2):
        run = Run("one", tmp_path)
        assert run.step("step", {"seed": 0}, compute) == {"found": 1}
    assert run.reused == 1
    assert run.earlier.passed > 0
    assert run.step("step", {"seed": 1}, compute) == {"found": 2}
    assert Run("other", tmp_path).step("step", {"seed": 0}, compute) == {"found": 3}
    assert Run("one", None).step("step", {"seed": 0}, compute) == {"found": 4}


def test_a_step_that_was_cut_off_is_computed_again(tmp_path: Path) -> None:
    run = Run("one", tmp_path)
    run.step("step", {}, lambda: 1)
    (kept,) = (tmp_path / "one").iterdir()
    kept.write_text(kept.read_text()[:5])
    assert run.step("step", {}, lambda: 2) == 2
    assert Run("one", tmp_path).step("step", {}, lambda: 3) == 2


def test_whoever_watches_is_told_without_long_values(tmp_path: Path) -> None:
    said: list[str] = []
    Run("one", None, say=said.append).step("step", {"epsilon": 2.0, "many": [1, 2]}, lambda: 0)
    assert said == ["step epsilon=2.0"]


def test_intervals_of_three_seeds_cover_as_promised() -> None:
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(1000):
        found = estimate(rng.normal(size=3).tolist())
        hits.append(found["low"] <= 0 <= found["high"])
    assert np.mean(hits) == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 1000) ** 0.5)


def test_one_seed_has_no_interval_and_is_clearly_above_nothing() -> None:
    one = estimate([3.0])
    assert one["low"] is None
    assert not clearly_above(one, estimate([1.0, 1.0]))
    assert clearly_above(estimate([3.0, 3.1, 3.2]), estimate([1.0, 1.1, 1.2]))


def test_a_line_is_in_the_order_of_its_places() -> None:
    line = Line.of("x", [(2.0, estimate([1.0])), (1.0, estimate([0.0]))])
    assert (line.x, line.y) == ([1.0, 2.0], [0.0, 1.0])


def test_mechanisms_are_brought_to_the_same_certified_epsilon() -> None:
    published = Subject("TEM", "tem", {"tuning": "published"})
    nominal = certified(published.compile(SPACE, 3.0))
    found = certified(published.at_certified(SPACE, 3.0))
    assert nominal < 2.9 < found <= 3.0


def test_a_mechanism_that_does_not_exist_at_an_epsilon_is_left_out() -> None:
    assert compiled(Subject("Gumbel", "truncated-gumbel"), SPACE, 1.0) is None


def test_an_attacker_is_never_worse_than_one_who_does_not_look() -> None:
    drowned = compiled(Subject("Laplace", "laplace"), SPACE, 0.01)
    assert drowned is not None
    prior = Prior(np.array([0.5, *[0.5 / 119] * 119]), "one word is half of all")
    assert attack_success(drowned, prior, draws=4) >= 0.5


def test_means_of_vectors_without_noise_are_means_of_word_vectors() -> None:
    quiet = Subject("Laplace", "laplace", {"mapping": "none"}).compile(SPACE, 1e6)
    assert isinstance(quiet, VectorMechanism)
    (found,) = mean_vectors(quiet, [f"{SPACE.words[3]} {SPACE.words[5]}"], seed=0)
    words = quiet.field.locations[SPACE.points[[3, 5]]]
    np.testing.assert_allclose(found, words.mean(axis=0), atol=1e-2)


@pytest.mark.parametrize("transform", ["none", "unit-norm", "unit-ball", "min-max", "observed-range", "clip", "jl"])
def test_a_mechanism_on_transformed_vectors_promises_what_the_transform_costs(transform: str) -> None:
    bench = _Bench(Config(words=120), Run("one", None))
    after, constant = bench.after(transform)
    here = Subject("Laplace", "laplace", {"noise": "plain"}).compile(after, 3.0)
    inside = Subject("Laplace", "laplace", {"noise": "plain", "transform": transform}).compile(bench.space, 3.0)
    assert certified(here) * constant == pytest.approx(certified(inside), rel=1e-5)


def test_every_transform_meets_every_mechanism_and_laplace_noise_every_mapping() -> None:
    cpu = EXPERIMENT.setting("cpu")
    found = {(row.subject.name, row.transform, row.mapping) for row in rows(cpu)}
    assert len(found) == 7 * (3 + 1 + 3) + 2
    assert {transform for _, transform, _ in found} == set(cpu.transforms)


def test_a_row_below_its_valid_domain_is_marked_and_not_plotted() -> None:
    config = Config(words=40, train=20, test=10, attribute_train=20, attribute_test=10, transforms=("none",))
    found = _Bench(config, Run("one", None)).row(Row("none", CHOOSES, Subject("Gumbel", "truncated-gumbel")), 0.1)
    assert found == {}
    outcome = EXPERIMENT.run(replace(config, epsilons=(0.1,)), Run("one", None))
    (table,) = outcome.tables
    (marked,) = [row for row in table.rows if row[0].startswith("truncated Gumbel")]
    assert marked[3:] == [INVALID, None, None, None]
    assert not any(line.name.startswith("truncated Gumbel") for figure in outcome.figures for line in figure.lines)


def test_bisection_finds_the_target() -> None:
    place, value = bisected(lambda x: x / (1 + x), 0.25, 4.0)
    assert value == pytest.approx(0.25, rel=0.02)
    assert place / (1 + place) == value


def test_made_up_sentences_have_what_attacks_look_for() -> None:
    texts = synthetic(SPACE, 50, 1)
    assert texts.texts == synthetic(SPACE, 50, 1).texts != synthetic(SPACE, 50, 2).texts
    assert len(texts.texts) == len(texts.labels) == len(texts.authors) == 50
    assert (texts.attributes == texts.authors % 2).all()
    train, test = texts.split(0.8, 0)
    assert (len(train.texts), len(test.texts)) == (40, 10)
    assert not set(train.texts) & set(test.texts)


@pytest.mark.skipif(not SHARED.exists(), reason="the data files are not beside the project")
@pytest.mark.parametrize(("name", "classes"), [("sst2", 2), ("ag-news", 4), ("nps-chat", 5), ("wikitext", 1)])
def test_data_files_are_read(name: str, classes: int) -> None:
    texts = load_texts(name, SPACE, SHARED, 300, seed=1)
    assert len(texts.texts) == 300
    assert texts.classes == classes
    assert texts.texts == load_texts(name, SPACE, SHARED, 300, seed=1).texts


def test_data_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="by --data"):
        load_texts("nps-chat", SPACE, tmp_path, 10)
    with pytest.raises(ParameterError, match="data must be one of"):
        load_texts("novel", SPACE, tmp_path, 10)


def test_experiments_have_names_of_their_own_and_both_settings() -> None:
    found = experiments()
    assert len({one.name for one in found}) == len(found) >= 2
    for one in found:
        assert {"small", "cpu"} <= set(one.settings)
        assert len(one.setting("cpu").seeds) >= 3
        assert experiment(one.name) is one
    with pytest.raises(ParameterError, match="there is no experiment 'nothing'"):
        experiment("nothing")
    with pytest.raises(ParameterError, match="no setting of that name"):
        found[0].setting("huge")


def test_what_is_not_a_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for content in ("{", "[]", json.dumps({"experiment": "x"})):
        path.write_text(content)
        with pytest.raises(DataError, match=r"not JSON|not the result"):
            load_result(path)
