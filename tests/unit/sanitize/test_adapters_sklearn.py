"""The scikit-learn transformer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import DataError, MissingExtraError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.space import Space

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_array, estimator_checks
from sklearn.utils.validation import check_is_fitted

from sfumato.sanitize.adapters.sklearn import SfumatoTransformer

WORDS = ["rain", "snow", "wind", "storm", "sun", "sky", "hail", "ice"]
SPACE = Space.from_arrays(WORDS, np.random.default_rng(0).normal(size=(8, 3)))
STILL = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=500.0), oov="mask")
NOISY = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=0.1))
TEXTS = ["Rain and snow", "", "SMITH, sun"]
SAFE = ["Rain [MASK] snow", "", "[MASK], sun"]
CHECKS = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)
"""The checks that bring no numbers of their own as samples, so that they can see the transformer itself."""


class OnNumbers(SfumatoTransformer):
    """Takes numbers and gives numbers, as scikit-learn's checks want them; each stands for a word.

    With next to no noise the outcome can be compared, too.
    """

    def fit(self, X, y=None):
        check_array(X)
        return super().fit()

    def transform(self, X):
        texts = super().transform([WORDS[int(sample[0]) % len(WORDS)] for sample in check_array(X)])
        return np.array([[WORDS.index(text)] for text in texts])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        tags.input_tags.one_d_array = False
        tags.input_tags.two_d_array = True
        return tags


def all_checks(transformer):
    """Return every check that scikit-learn chooses for the transformer, but the one about arrays of other libraries."""
    return [
        pytest.param(estimator, check, id=check.func.__name__)
        for estimator, check in estimator_checks.estimator_checks_generator(transformer)
        if check.func.__name__ != "check_array_api_input"
    ]


@pytest.mark.filterwarnings("ignore:.*check")
@pytest.mark.parametrize(("estimator", "check"), all_checks(OnNumbers(STILL)))
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "transformer", [SfumatoTransformer(), SfumatoTransformer(NOISY)], ids=["settings", "sanitizer"]
)
@pytest.mark.parametrize("name", CHECKS)
def test_scikit_learns_checks_that_bring_no_samples(name, transformer):
    getattr(estimator_checks, name)(type(transformer).__name__, clone(transformer))


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_scikit_learn_finds_nothing_wrong_with_the_transformer_for_texts():
    estimator_checks.check_estimator(SfumatoTransformer(NOISY))


def test_texts_come_out_sanitized_with_settings_or_a_ready_sanitizer():
    for transformer in (SfumatoTransformer(STILL), SfumatoTransformer(epsilon=500.0, space=SPACE, oov="mask")):
        assert transformer.fit_transform(TEXTS).tolist() == SAFE
        assert transformer.transform(np.array(TEXTS)).tolist() == SAFE
        assert transformer.transform(iter(TEXTS)).tolist() == SAFE
        assert transformer.guarantee.epsilon == 500.0
    assert SfumatoTransformer(NOISY).transform([]).tolist() == []


def test_every_setting_reaches_the_sanitizer():
    policy = sfumato.policies.everything() & sfumato.policies.keep_words(["snow"])
    transformer = SfumatoTransformer(
        epsilon=2.0,
        mechanism="santext",
        space=SPACE,
        policy=policy,
        oov="keep",
        carry_case=False,
        consistency="record",
        public_length=5,
    ).fit()
    built = transformer._ready()
    assert (built.mechanism.guarantee.mechanism, built.mechanism.space, built.policy) == ("santext", SPACE, policy)
    assert (built.oov, built.carry_case, str(built.consistency), built.public_length) == ("keep", False, "record", 5)
    assert (
        SfumatoTransformer(mechanism="tem", epsilon=1.0, space=SPACE, mechanism_options={"gamma": 2.0}).guarantee.radius
        == 2.0
    )


def test_every_transform_draws_anew():
    transformer = SfumatoTransformer(NOISY).fit(TEXTS)
    text = [" ".join(WORDS * 4)]
    assert transformer.transform(text)[0] != transformer.transform(text)[0]


def test_it_is_a_step_of_a_pipeline():
    texts, labels = ["rain snow hail"] * 20 + ["sun sky"] * 20, [0] * 20 + [1] * 20
    pipeline = make_pipeline(SfumatoTransformer(STILL), TfidfVectorizer(), LogisticRegression())
    assert pipeline.fit(texts, labels).score(texts, labels) == 1.0
    assert set(pipeline[:-1].get_feature_names_out()) == {"rain", "snow", "hail", "sun", "sky"}
    drowned = make_pipeline(SfumatoTransformer(mechanism="random", space=SPACE), TfidfVectorizer())
    assert drowned.fit_transform(texts).shape[1] == len(WORDS)


def test_it_takes_a_column_of_a_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"stars": [1, 5], "text": ["rain", "sun"]}, index=[8, 3])
    inner = make_pipeline(SfumatoTransformer(STILL), TfidfVectorizer())
    columns = ColumnTransformer([("text", inner, "text")], remainder="passthrough")
    assert np.asarray(columns.fit_transform(frame)).tolist() == [[1, 0, 1], [0, 1, 5]]
    assert columns.get_feature_names_out().tolist() == ["text__rain", "text__sun", "remainder__stars"]


def test_settings_can_be_searched():
    pipeline = make_pipeline(SfumatoTransformer(epsilon=1.0, space=SPACE), TfidfVectorizer(), LogisticRegression())
    search = GridSearchCV(pipeline, {"sfumatotransformer__epsilon": [0.01, 500.0]}, cv=2)
    search.fit(["rain", "sun"] * 40, [0, 1] * 40)
    assert search.best_params_ == {"sfumatotransformer__epsilon": 500.0}


def test_new_settings_count_at_once():
    transformer = SfumatoTransformer(epsilon=1.0, space=SPACE).fit()
    assert transformer.guarantee.epsilon == 1.0
    assert transformer.set_params(epsilon=3.0).guarantee.epsilon == 3.0


def test_a_clone_shares_what_is_never_changed():
    transformer = SfumatoTransformer(NOISY).fit()
    assert clone(transformer).sanitizer is NOISY
    assert clone(SfumatoTransformer(epsilon=1.0, space=SPACE)).space is SPACE


def test_it_can_be_pickled_and_needs_no_fit():
    transformer = pickle.loads(pickle.dumps(SfumatoTransformer(STILL)))
    check_is_fitted(transformer)
    assert transformer.transform(TEXTS).tolist() == SAFE


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ("rain", ParameterError, "one-dimensional"),
        (np.array([["rain"]]), ParameterError, "one-dimensional"),
        (["rain", None], DataError, "row 1"),
        (["rain", "sun", 3.0, "secret"], DataError, r"float at row 2 \(counted from 0\)"),
        ([float("nan")], DataError, "float at row 0"),
    ],
)
def test_samples_that_are_no_texts(samples, error, message):
    with pytest.raises(error, match=message) as raised:
        SfumatoTransformer(NOISY).fit_transform(samples)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "tem needs epsilon"),
        ({"sanitizer": NOISY, "epsilon": 1.0, "oov": "mask"}, "leave epsilon, oov out"),
        ({"sanitizer": "tem"}, "must be a Sanitizer, got a str"),
        ({"epsilon": 1.0, "oov": "x"}, "oov"),
    ],
)
def test_settings_that_cannot_be_meant(settings, message):
    if "sanitizer" not in settings:
        settings = {**settings, "space": SPACE}
    with pytest.raises(ParameterError, match=message):
        SfumatoTransformer(**settings).fit()


def test_keys_that_do_no_harm_are_taken():
    for sanitizer in (
        sfumato.Sanitizer(NOISY.mechanism, consistency="dataset", key=RunKey.from_seed(1)),
        sfumato.Sanitizer(NOISY.mechanism, consistency="dataset"),
    ):
        transformer = SfumatoTransformer(sanitizer).fit()
        assert transformer.transform(WORDS).tolist() == transformer.transform(WORDS).tolist()


def test_a_missing_library_is_named(monkeypatch):
    import importlib
    import sys

    from sfumato.sanitize.adapters import sklearn as adapter

    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, adapter.__name__)
    with pytest.raises(MissingExtraError, match=r"sfumato\[sklearn\]"):
        importlib.import_module(adapter.__name__)
