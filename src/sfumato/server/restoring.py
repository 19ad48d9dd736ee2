"""Replaced words put back into an answer, on the owner's side.

The mapping from a drawn word to the word it replaced lives for one request and is never written down.  Only words that
stand for one word are put back: one that was drawn for two, or that also stands in the conversation as it is, says nothing
about which was meant.  What is put back was known to the caller all along; the upstream never sees it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.text import apply_case, case_of, pieces

_LONGEST_WORD = 200


class Restorer:
    """Puts replaced words back, also into a text that comes in parts.

    >>> restorer = Restorer([(["", "Ada", " ", "left", ""], ["", "Eva", " ", "left", ""])])
    >>> restorer.feed("Why did E") + restorer.feed("va leave?") + restorer.finish()
    'Why did Ada leave?'
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

    def __len__(self) -> int:
        return len(self._words)

    def whole(self, text: str) -> str:
        """Return a text with the words put back."""
        found = pieces(text)
        found[1::2] = [self._restored(token) for token in found[1::2]]
        return "".join(found)

    def feed(self, part: str) -> str:
        """Return what can be said after a part of a text came: up to the last word, which may go on."""
        self._rest += part
        found = pieces(self._rest)
        if found[-1] == "" and len(found) > 1 and len(found[-2]) <= _LONGEST_WORD:
            done, self._rest = "".join(found[:-2]), found[-2]
        else:
            done, self._rest = self._rest, ""
        return self.whole(done)

    def finish(self) -> str:
        """Return what is left at the end."""
        rest, self._rest = self._rest, ""
        return self.whole(rest)

    def _restored(self, token: str) -> str:
        old = self._words.get(token.lower())
        if old is None:
            return token
        return apply_case(old, case_of(token)) if old.islower() else old
