from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import DataError
from sfumato.scale.conversion import as_field, as_json

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON)
def test_json_values_are_read_back_as_they_were_and_can_be_encoded(value: object) -> None:
    text = as_json(value)
    assert json.loads(text) == value
    text.encode("utf-8")


def test_dates_and_decimals_are_text() -> None:
    row = {"d": datetime.date(2024, 2, 29), "x": [Decimal("1.10")]}
    assert as_json(row) == '{"d": "2024-02-29", "x": ["1.10"]}'
    assert as_field(row["d"]) == "2024-02-29"


def test_bytes_are_refused_by_type_and_without_their_content() -> None:
    with pytest.raises(DataError, match="type bytes") as caught:
        as_json({"a": b"secret"})
    assert "secret" not in str(caught.value)
