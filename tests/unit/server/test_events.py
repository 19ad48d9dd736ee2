"""Streams from a chat model, as they come and as they should not."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
httpx = pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from sfumato.server.chat import Upstream  # noqa: E402
from sfumato.server.events import TooLongError, event_data  # noqa: E402
from sfumato.server.restoring import Restorer  # noqa: E402
from sfumato.server.settings import ChatSettings  # noqa: E402

SETTINGS = ChatSettings(upstream="http://model.invalid/v1", mechanism="everyday", models=["small"], answer_bytes=20_000)
LINE_ENDS = ("\n", "\r\n", "\r")


async def _cut(written: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    places = [0, *sorted(cut % (len(written) + 1) for cut in cuts), len(written)]
    for start, end in itertools.pairwise(places):
        yield written[start:end]


def _data(written: bytes, cuts: list[int], most: int = 10_000) -> list[str]:
    async def listed() -> list[str]:
        return [data async for data in event_data(_cut(written, cuts), most=most)]

    return asyncio.run(listed())


@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1), max_size=5
    ),
    st.sampled_from(LINE_ENDS),
    st.lists(st.integers(0, 10_000), max_size=6),
)
def test_events_are_found_however_they_are_cut(texts: list[str], end: str, cuts: list[int]) -> None:
    written = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    assert _data(written, cuts) == texts


def test_line_ends_of_unicode_are_no_ends_of_lines() -> None:
    for character in "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e":
        assert _data(f"data: a{character}b\n\n".encode(), []) == [f"a{character}b"]


def test_an_event_that_never_ends_is_cut_off() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"data: " + b"x" * 100

    async def read() -> None:
        async for _ in event_data(endless(), most=5000):
            pass

    with pytest.raises(TooLongError):
        asyncio.run(read())


class _Bytes(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), 7):
            yield self._content[start : start + 7]


def _streamed(content: bytes, restorer: Restorer | None = None) -> list[Any]:
    async def listed() -> list[bytes]:
        answer = httpx.Response(200, stream=_Bytes(content))
        return [part async for part in Upstream(None, SETTINGS).parts(answer, restorer)]

    parts = asyncio.run(listed())
    assert all(part.startswith(b"data: ") and part.endswith(b"\n\n") for part in parts)
    return [part[6:-2].decode() if part == b"data: [DONE]\n\n" else json.loads(part[6:]) for part in parts]


@pytest.mark.parametrize(
    "event",
    ["[]", "5", "null", '"text"', '{"choices": 5}', '{"choices": "text"}', '{"choices": [5]}',
     '{"choices": [{"delta": 5}]}', '{"choices": [{"delta": []}]}', "{", "[" * 5000, "\udcff"],
)  # fmt: skip
@pytest.mark.parametrize("restored", [False, True])
def test_events_of_the_wrong_shape_end_the_stream_with_an_error(event: str, restored: bool) -> None:
    restorer = Restorer([]) if restored else None
    found = _streamed(f"data: {event}\n\ndata: [DONE]\n\n".encode("utf-8", "surrogateescape"), restorer)
    assert found == [{"error": {"message": "the answer of the chat model broke off", "code": 502}}]


@pytest.mark.parametrize("event", ["{}", '{"choices": null}', '{"choices": []}', '{"choices": [{"delta": null}]}'])
def test_events_without_an_answer_pass(event: str) -> None:
    assert _streamed(f"data: {event}\n\ndata: [DONE]\n\n".encode(), Restorer([])) == [json.loads(event), "[DONE]"]


def test_a_long_answer_is_cut_off_and_said() -> None:
    found = _streamed(b'data: {"choices": []}\n\n' * 2000)
    assert found[-1] == {"error": {"message": "the answer of the chat model is too long", "code": 502}}


def test_a_separator_inside_an_answer_stays_in_it() -> None:
    written = json.dumps({"choices": [{"delta": {"content": "one\u2028two\x85"}}]}, ensure_ascii=False)
    found = _streamed(f"data: {written}\n\ndata: [DONE]\n\n".encode(), Restorer([]))
    said = "".join(one["choices"][0]["delta"]["content"] for one in found[:-1])
    assert said == "one\u2028two\x85"
