"""The function for ``datasets.Dataset.map``."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize.adapters.datasets import for_datasets
from sfumato.space import Space

WORDS = ["rain", "snow", "wind", "storm", "sun", "sky", "hail", "ice"]
SPACE = Space.from_arrays(WORDS, np.random.default_rng(0).normal(size=(8, 3)))
STILL = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=500.0), oov="mask")
NOISY = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=0.1))
KEY = RunKey.generate()
LONG = ["rain snow wind storm sun sky hail ice"] * 13
EXPECTED = NOISY.batch(LONG, key=KEY).texts


@pytest.fixture
def library(monkeypatch, tmp_path):
    found = pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    found.disable_progress_bars()
    return found


def mapped(dataset, function, **options):
    return dataset.map(function, batched=True, with_indices=True, **options)


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 3}, {"batch_size": None}, {"num_proc": 2, "batch_size": 4}], ids=str
)
def test_a_record_gets_the_same_noise_however_the_work_is_cut(library, options):
    dataset = library.Dataset.from_dict({"id": list(range(13)), "text": LONG})
    safe = mapped(dataset, for_datasets(NOISY, "text", key=KEY), **options)
    assert safe["text"][:] == EXPECTED
    assert safe["id"][:] == list(range(13))
    assert dataset["text"][:] == LONG


def test_without_a_key_every_map_draws_anew(library):
    dataset = library.Dataset.from_dict({"text": LONG})
    one = mapped(dataset, for_datasets(NOISY, "text"))["text"][:]
    other = mapped(dataset, for_datasets(NOISY, "text"), load_from_cache_file=False)["text"][:]
    assert one != other
    assert len(set(one)) == len(one)


def test_workers_without_a_key_draw_unlike_noise(library):
    """Forked workers that shared a random state would draw alike for the equal texts of both halves."""
    dataset = library.Dataset.from_dict({"text": [" ".join(WORDS * 6)] * 12})
    safe = mapped(dataset, for_datasets(NOISY, "text"), num_proc=2, batch_size=1)["text"][:]
    assert len(set(safe)) == 12


def test_nulls_stay_and_several_columns_are_done_together(library):
    dataset = library.Dataset.from_dict({"title": ["Rain", None, "Smith"], "text": [None, "sun and sky", ""]})
    safe = mapped(dataset, for_datasets(STILL, ["title", "text"]))
    assert safe["title"][:] == ["Rain", None, "[MASK]"]
    assert safe["text"][:] == [None, "sun [MASK] sky", ""]


def test_the_library_finds_its_stored_result_again(library, tmp_path):
    library.Dataset.from_dict({"text": LONG}).save_to_disk(tmp_path / "data")
    dataset = library.load_from_disk(tmp_path / "data")
    function = for_datasets(NOISY, "text")
    first = mapped(dataset, function)
    assert first.cache_files
    assert mapped(dataset, function)["text"][:] == first["text"][:]


def test_the_name_of_a_stored_result_depends_on_key_and_sanitizer_only(library):
    from datasets.fingerprint import Hasher

    function = for_datasets(NOISY, "text", key=KEY)
    before = Hasher.hash(function)
    function({"text": LONG}, list(range(13)))
    assert Hasher.hash(function) == before
    assert Hasher.hash(pickle.loads(pickle.dumps(function))) == before
    assert Hasher.hash(for_datasets(NOISY, "text", key=RunKey.generate())) != before
    assert Hasher.hash(for_datasets(STILL, "text", key=KEY)) != before


def test_a_stream_of_records(library):
    dataset = library.Dataset.from_dict({"text": LONG}).to_iterable_dataset()
    safe = mapped(dataset, for_datasets(NOISY, "text", key=KEY), batch_size=5)
    assert [record["text"] for record in safe] == EXPECTED


def test_places_out_of_order_and_a_place_to_begin_at():
    function = for_datasets(NOISY, "text", key=KEY)
    places = [5, 6, 2, 12, 0]
    assert function({"text": LONG[:5]}, places)["text"] == [EXPECTED[place] for place in places]
    later = for_datasets(NOISY, "text", key=KEY, first_record=10)
    assert later({"text": LONG[:3]}, [0, 1, 2])["text"] == EXPECTED[10:]
    assert function({"text": []}, []) == {"text": []}


def test_columns_of_a_record_have_noise_of_their_own():
    function = for_datasets(NOISY, ["one", "other"], key=KEY)
    done = function({"one": LONG[:6], "other": LONG[:6]}, list(range(6)))
    assert done["one"] + done["other"] == EXPECTED[0:12:2] + EXPECTED[1:12:2]


def test_the_pickled_function_does_the_same():
    function = pickle.loads(pickle.dumps(for_datasets(NOISY, "text", key=KEY)))
    assert function({"text": LONG}, list(range(13)))["text"] == EXPECTED
    assert KEY.secret.hex() not in repr(function)
    assert repr(KEY.secret) not in repr(function)


def test_the_guarantee_goes_with_the_key():
    assert for_datasets(NOISY, "text", key=KEY).guarantee == NOISY.guarantee
    assert not for_datasets(NOISY, "text", key=RunKey.from_seed(0)).guarantee.secure


def test_wrong_use_is_said(library):
    function = for_datasets(NOISY, "text")
    dataset = library.Dataset.from_dict({"text": LONG})
    with pytest.raises(ParameterError, match="with_indices=True"):
        dataset.map(function, batched=True)
    with pytest.raises(ParameterError, match="batched=True"):
        dataset.map(function, with_indices=True)
    with pytest.raises(DataError, match="no column texts; the columns are: text"):
        mapped(dataset, for_datasets(NOISY, "texts"))
    with pytest.raises(DataError, match=r"the column text has a value of type int at row 0 \(counted from 0\)"):
        mapped(library.Dataset.from_dict({"text": [7]}), function)
    with pytest.raises(DataError, match="at row 9 "):
        function({"text": ["rain", 7]}, [8, 9])
    for columns in ([], ["text", "text"]):
        with pytest.raises(ParameterError, match="none of them twice"):
            for_datasets(NOISY, columns)
