"""The word of a vocabulary that a misspelled one is taken for.

The rule is public and depends on the spelled word and the vocabulary alone, so whatever is promised about words of the
vocabulary holds for the words that are taken for them: the loss between two such words is that between the words they
are taken for.
"""

from __future__ import annotations

from collections.abc import Sequence

LEAST_LETTERS = 4
"""Shorter words are one letter away from too many others."""


def _shortened(word: str) -> list[str]:
    """Return the word with one letter left out, for every letter."""
    return [word[:i] + word[i + 1 :] for i in range(len(word))]


def one_edit_apart(one: str, other: str) -> bool:
    """Tell whether a letter left out, put in or changed, or two neighbours swapped, makes one word of the other.

    >>> [one_edit_apart("their", word) for word in ("there", "thier", "heir", "theirs", "chair", "their")]
    [False, True, True, True, False, False]
    """
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    rest, others = one[start:], other[start:]
    return (
        rest[1:] == others[1:]
        or rest[1:] == others
        or rest == others[1:]
        or (rest[:2] == others[:2][::-1] and rest[2:] == others[2:])
    )


class Spelling:
    """Finds the first word of a vocabulary that is one letter away.

    Words are taken in the vocabulary's order, in which frequent ones usually come first.

    >>> spelling = Spelling(["restaurant", "waiter", "water"])
    >>> spelling.nearest("resturant"), spelling.nearest("watier"), spelling.nearest("xzyvqa")
    (0, 1, None)
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._places: dict[int, list[int]] = {}
        for place, word in enumerate(words):
            if len(word) >= LEAST_LETTERS - 1 and word.isalpha():
                for part in {hash(word), *map(hash, _shortened(word))}:
                    self._places.setdefault(part, []).append(place)

    def nearest(self, word: str) -> int | None:
        """Return the place of the first word one letter away from this one, if there is any.

        Words that are short or not made of letters alone, such as numbers and codes, are not taken for others.
        """
        if len(word) < LEAST_LETTERS or not word.isalpha():
            return None
        candidates: set[int] = set()
        for part in {word, *_shortened(word)}:
            candidates.update(self._places.get(hash(part), ()))
        return min((place for place in candidates if one_edit_apart(word, self._words[place])), default=None)
