"""Columns of pandas and polars frames."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import guarantee_from_json
from sfumato.foundation.randomness import RunKey
from sfumato.space import Space

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

WORDS = ["rain", "snow", "wind", "storm", "sun", "sky", "hail", "ice"]
SPACE = Space.from_arrays(WORDS, np.random.default_rng(0).normal(size=(8, 3)))
STILL = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=500.0), oov="mask")
NOISY = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=0.1))
KEY = RunKey.generate()
TEXTS = ["Rain and snow", None, "", "SMITH, sun"]
SAFE = ["Rain [MASK] snow", None, "", "[MASK], sun"]
LONG = ["rain snow wind storm sun sky hail ice"] * 5


def pandas_frame(**columns):
    index = ["a", "b", "b", "c"]
    series = {
        name: pd.Series(column, index=index, dtype=getattr(column, "dtype", None)) for name, column in columns.items()
    }
    return pd.DataFrame({"id": [4, 3, 2, 1], **series}, index=index)


def as_list(series):
    return [None if pd.isna(value) else value for value in series]


@pytest.mark.parametrize(
    "kind",
    [
        object,
        pd.StringDtype("python"),
        pd.StringDtype("pyarrow"),
        pd.StringDtype("pyarrow", na_value=np.nan),
        pd.ArrowDtype(pa.string()),
        pd.ArrowDtype(pa.large_string()),
    ],
    ids=str,
)
def test_a_pandas_column_keeps_its_type_index_and_nulls(kind):
    frame = pandas_frame(text=pd.Series(TEXTS, dtype=kind).array)
    before = frame.copy(deep=True)
    safe = STILL.column(frame, "text")
    assert as_list(safe["text"]) == SAFE
    assert safe["text"].dtype == kind
    assert safe.index.equals(frame.index)
    assert safe["id"].tolist() == [4, 3, 2, 1]
    pd.testing.assert_frame_equal(frame, before)
    assert frame.attrs == {}


def test_nulls_of_object_columns_stay_as_they_are_spelled():
    series = pd.Series([None, np.nan, pd.NA, "rain"], dtype=object)
    safe = STILL.column(series)
    assert safe[0] is None
    assert safe[2] is pd.NA
    assert isinstance(safe[1], float)
    assert safe[3] == "rain"


@pytest.mark.parametrize(
    "kind",
    ["category", pd.CategoricalDtype([*filter(None, TEXTS), "", "unused secret"], ordered=True)],
    ids=["found", "given"],
)
def test_pandas_categories_do_not_carry_the_texts_along(kind):
    frame = pandas_frame(text=pd.Series(TEXTS, dtype=kind).array)
    safe = STILL.column(frame, "text")
    assert as_list(safe["text"]) == SAFE
    assert not isinstance(safe["text"].dtype, pd.CategoricalDtype)
    nothing = frame.assign(text=frame["text"].where(frame["id"] > 9))
    assert not isinstance(STILL.column(nothing, "text")["text"].dtype, pd.CategoricalDtype)


def test_arrow_dictionaries_do_not_carry_the_texts_along():
    array = pa.array(TEXTS).dictionary_encode()
    safe = STILL.column(pd.Series(array, dtype=pd.ArrowDtype(array.type)))
    assert as_list(safe) == SAFE
    assert safe.dtype == pd.ArrowDtype(pa.string())


def test_several_columns_and_the_guarantee_of_each():
    frame = pandas_frame(title=TEXTS[::-1], text=TEXTS)
    frame.attrs["source"] = "a survey"
    safe = STILL.column(frame, ["text", "title"])
    assert as_list(safe["title"]) == SAFE[::-1]
    assert as_list(safe["text"]) == SAFE
    assert safe.columns.tolist() == ["id", "title", "text"]
    assert safe.attrs["source"] == "a survey"
    assert set(safe.attrs["sfumato"]) == {"text", "title"}
    assert guarantee_from_json(json.loads(json.dumps(safe.attrs["sfumato"]["text"]))) == STILL.guarantee
    once_more = NOISY.column(safe, "title")
    assert guarantee_from_json(once_more.attrs["sfumato"]["text"]) == STILL.guarantee
    assert guarantee_from_json(once_more.attrs["sfumato"]["title"]) == NOISY.guarantee


def test_the_frame_can_still_be_written_with_its_guarantee(tmp_path):
    safe = STILL.column(pandas_frame(text=TEXTS), "text")
    safe.to_parquet(tmp_path / "safe.parquet")
    back = pd.read_parquet(tmp_path / "safe.parquet")
    assert guarantee_from_json(back.attrs["sfumato"]["text"]) == STILL.guarantee


def test_a_pandas_series():
    series = pd.Series(TEXTS, index=[7, 5, 5, 1], name="notes")
    safe = STILL.column(series)
    assert as_list(safe) == SAFE
    assert safe.index.tolist() == [7, 5, 5, 1]
    assert safe.name == "notes"
    assert "notes" in safe.attrs["sfumato"]
    assert series.attrs == {}


def test_columns_named_by_numbers_and_pairs():
    frame = pd.DataFrame({0: ["rain"], ("a", "b"): ["snow"]})
    assert STILL.column(frame, 0)[0].tolist() == ["rain"]
    assert STILL.column(frame, [("a", "b")]).iloc[0, 1] == "snow"


@pytest.mark.parametrize(
    "kind", [pl.String, pl.Categorical, pl.Enum([*filter(None, TEXTS), "", "unused secret"])], ids=str
)
def test_a_polars_column(kind):
    frame = pl.DataFrame({"id": [4, 3, 2, 1], "text": pl.Series(TEXTS, dtype=kind)})
    safe = STILL.column(frame, "text")
    assert safe["text"].to_list() == SAFE
    assert safe.schema == {"id": pl.Int64, "text": pl.String}
    assert frame["text"].to_list() == TEXTS
    series = STILL.column(frame["text"])
    assert (series.name, series.to_list()) == ("text", SAFE)


def test_polars_objects_and_columns_without_a_text():
    assert STILL.column(pl.Series("x", ["rain", None], dtype=pl.Object)).to_list() == ["rain", None]
    assert STILL.column(pl.Series("x", [None, None])).to_list() == [None, None]
    assert STILL.column(pl.Series("x", [None, None], dtype=pl.Int64)).to_list() == [None, None]
    with pytest.raises(DataError, match="the series has a value of type list at row 1"):
        STILL.column(pl.Series("x", ["rain", ["snow"]], dtype=pl.Object))
    assert STILL.column(pl.DataFrame({"x": []}, schema={"x": pl.String}), "x").height == 0


def test_pandas_columns_without_a_text():
    frame = pd.DataFrame({"x": [np.nan, np.nan], "n": [1, 2]})
    pd.testing.assert_series_equal(STILL.column(frame, "x")["x"], frame["x"])
    empty = STILL.column(frame.iloc[:0], "n")
    assert len(empty) == 0
    assert guarantee_from_json(empty.attrs["sfumato"]["n"]) == STILL.guarantee


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (pd.DataFrame({"text": ["rain", None, 3.5, "secret"]}, index=[10, 11, 12, 13]), "float"),
        (pd.DataFrame({"text": pd.Series([None, None, 2, 3], dtype="Int64")}), "int"),
        (pd.DataFrame({"text": pd.Series([None, None, 2, 3], dtype="category")}), "float"),
        (pl.DataFrame({"text": [None, None, 2, 3]}), "Int64"),
        (pl.DataFrame({"text": [None, None, ["secret"], None]}), "List"),
    ],
    ids=["mixed", "numbers", "categories", "polars numbers", "polars lists"],
)
def test_values_that_are_no_texts_are_named_by_their_row(frame, kind):
    with pytest.raises(DataError, match=f"the column text has a value of type {kind} at row 2 ") as error:
        STILL.column(frame, "text")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_with_a_key_the_noise_of_a_row_follows_from_its_place(library):
    frame = library.DataFrame({"text": LONG})
    safe = list(NOISY.column(frame, "text", key=KEY)["text"])
    assert safe == list(NOISY.column(frame, "text", key=KEY)["text"])
    assert safe == NOISY.batch(LONG, key=KEY).texts
    assert safe[2:] == list(NOISY.column(frame[2:], "text", key=KEY, first_row=2)["text"])
    assert len(set(safe)) == len(safe)
    assert safe != list(NOISY.column(frame, "text")["text"])


def test_nulls_do_not_move_the_noise_of_the_rows_behind_them():
    frame = pl.DataFrame({"text": [None, *LONG[1:]]})
    assert NOISY.column(frame, "text", key=KEY)["text"].to_list()[1:] == NOISY.batch(LONG, key=KEY).texts[1:]


def test_columns_of_one_row_have_noise_of_their_own():
    safe = NOISY.column(pl.DataFrame({"one": LONG, "other": LONG}), ["one", "other"], key=KEY)
    cells = [cell for row in safe.rows() for cell in row]
    assert cells == NOISY.batch(LONG * 2, key=KEY).texts
    assert len(set(cells)) == len(cells)


def test_many_rows_come_out_as_they_do_in_pieces(monkeypatch):
    from sfumato.sanitize.adapters import texts

    whole = NOISY.column(pl.Series(LONG), key=KEY).to_list()
    monkeypatch.setattr(texts, "_ROWS_AT_A_TIME", 2)
    assert NOISY.column(pl.Series(LONG), key=KEY).to_list() == whole


def test_the_guarantee_says_when_the_key_is_a_seed():
    frame = pandas_frame(text=TEXTS)
    assert guarantee_from_json(NOISY.column(frame, "text", key=KEY).attrs["sfumato"]["text"]).secure
    seeded = NOISY.column(frame, "text", key=RunKey.from_seed(1))
    assert not guarantee_from_json(seeded.attrs["sfumato"]["text"]).secure


@pytest.mark.parametrize(
    ("frame", "columns", "error", "message"),
    [
        (pd.DataFrame({"text": ["rain"]}), None, ParameterError, "must name the text column"),
        (pd.DataFrame({"text": ["rain"]}), [], ParameterError, "at least one"),
        (pd.DataFrame({"text": ["rain"]}), ["text", "text"], ParameterError, "none of them twice"),
        (pd.DataFrame({"text": ["rain"]}), "texts", DataError, "no column texts; the columns are: text"),
        (pd.DataFrame([["rain", "sun"]], columns=["text", "text"]), "text", DataError, "more than once"),
        (pd.Series(["rain"]), "text", ParameterError, "leave columns out"),
        (pl.Series(["rain"]), "text", ParameterError, "leave columns out"),
        (pl.LazyFrame({"text": ["rain"]}), "text", ParameterError, "collect"),
        (["rain"], None, ParameterError, "got a list"),
    ],
)
def test_what_cannot_be_done_is_said(frame, columns, error, message):
    with pytest.raises(error, match=message):
        STILL.column(frame, columns)
