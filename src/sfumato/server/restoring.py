"""Replaced words put back into an answer, on the owner's side.

The mapping from a drawn word to the word it replaced lives for one request and is never written down.  Only words that
stand for one word are put back: one that was drawn for two, or that also stands in the conversation as it is, says nothing
about which was meant.  What is put back was known to the caller all along; the upstream never sees it.

Nor is it to learn it afterwards.  A model can answer with a link or a picture whose address holds a drawn word; with the true
word put back there, a program that shows the answer and fetches the address would tell it to whoever the model chose.  So
nothing is put back from where an address or markup begins to the end of the paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sfumato.text import apply_case, case_of, pieces

_LONGEST_WORD = 200
_ADDRESS_OR_MARKUP = re.compile(r"[/\\]{2}|\]\(|\]:|<|https?:|www\.", re.IGNORECASE)
_LONGEST_MARK = 8
_PARAGRAPH_END = re.compile(r"\n\r?\n")


class Restorer:
    """Puts replaced words back, also into a text that comes in parts.

    >>> restorer = Restorer([(["", "Ada", " ", "left", ""], ["", "Eva", " ", "left", ""])])
    >>> restorer.feed("Why did E") + restorer.feed("va leave?") + restorer.finish()
    'Why did Ada leave?'
    >>> restorer.whole("Eva: see [this](https://example.org/Eva)")
    'Ada: see [this](https://example.org/Eva)'
    """

    def __init__(self, pairs: Iterable[tuple[list[str], list[str]]]) -> None:
        """Take the pieces of every text before and after; they must line up."""
        origins: dict[str, set[str]] = {}
        for before, after in pairs:
            for old, new in zip(before[1::2], after[1::2], strict=True):
                origins.setdefault(new.lower(), set()).add(old)
        self._words: dict[str, str] = {}
        for new, found in origins.items():
            spellings = {old.lower() for old in found}
            if len(spellings) == 1 and spellings != {new}:
                # Of several spellings of a word, the one with most capitals is what a name is written like.
                self._words[new] = min(found)
        self._rest = ""
        self._begin()

    def __len__(self) -> int:
        return len(self._words)

    def whole(self, text: str) -> str:
        """Return a text with the words put back."""
        self._begin()
        return self._said(text)

    def feed(self, part: str) -> str:
        """Return what can be said after a part of a text came: up to the last word, which may go on."""
        self._rest += part
        found = pieces(self._rest)
        if found[-1] == "" and len(found) > 1 and len(found[-2]) <= _LONGEST_WORD:
            done, self._rest = "".join(found[:-2]), found[-2]
        else:
            done, self._rest = self._rest, ""
        return self._said(done)

    def finish(self) -> str:
        """Return what is left at the end."""
        rest, self._rest = self._rest, ""
        return self._said(rest)

    def _begin(self) -> None:
        self._before, self._address = "", False

    def _said(self, text: str) -> str:
        found = pieces(text)
        for place, piece in enumerate(found):
            if place % 2 and not self._address:
                found[place] = self._restored(piece)
            self._pass(piece)
        return "".join(found)

    def _pass(self, piece: str) -> None:
        """Look whether an address or markup begins, or the paragraph with it ends."""
        seen = self._before + piece
        ends = [end.end() for end in _PARAGRAPH_END.finditer(seen)]
        if ends:
            seen, self._address = seen[ends[-1] :], False
        self._address = self._address or _ADDRESS_OR_MARKUP.search(seen) is not None
        self._before = seen[-_LONGEST_MARK:]

    def _restored(self, token: str) -> str:
        old = self._words.get(token.lower())
        if old is None:
            return token
        return apply_case(old, case_of(token)) if old.islower() else old
