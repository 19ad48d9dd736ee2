"""Stop words of many languages: the lists that come with spaCy (extra ``spacy``); no model is needed for them."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable
from typing import Any

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import Policy
from sfumato.policy.numbers import has_number
from sfumato.policy.optional import optional
from sfumato.policy.words import keep_words
from sfumato.text import pieces

_CODE = re.compile("[a-z]{2,3}")


def stop_words(*languages: str) -> Policy:
    """Release the stop words of one or more languages as they are, in any letter case, and protect everything else.

    Languages are codes such as ``en`` and ``de``; without any, English.  Numbers written as words are left out of the
    lists, and so are entries of several tokens: no number and no half of a contraction is kept.  The guarantee names the
    languages, the version of the lists and how many words they have.

    Some stop words have another meaning that a text may need to hide, ``Will`` for one.  Protect such words again with
    ``stop_words("en") | protect_words(["will"])``.
    """
    spacy = optional("spacy", "spacy", "spacy")
    chosen = languages or ("en",)
    unknown = [str(place) for place, language in enumerate(chosen) if not _has_list(language)]
    if unknown:
        raise ParameterError(
            f"there is no list of stop words for language {', '.join(unknown)} of those given; "
            f"choose from {', '.join(_codes(spacy))}"
        )
    words = {word for language in chosen for word in _words(language)}
    return keep_words(words, f"stop words ({', '.join(sorted(set(chosen)))}; lists of spaCy {spacy.__version__})")


def _has_list(language: str) -> bool:
    if not isinstance(language, str) or not _CODE.fullmatch(language):
        return False
    return (
        importlib.util.find_spec(f"spacy.lang.{language}") is not None
        and importlib.util.find_spec(f"spacy.lang.{language}.stop_words") is not None
    )


def _codes(spacy: Any) -> list[str]:
    folders = pkgutil.iter_modules([f"{path}/lang" for path in spacy.__path__])
    return [folder.name for folder in folders if folder.ispkg and _has_list(folder.name)]


def _words(language: str) -> set[str]:
    entries: set[str] = importlib.import_module(f"spacy.lang.{language}.stop_words").STOP_WORDS
    is_number = _number_words(language)
    tokens = {entry: pieces(entry)[1::2] for entry in entries}
    return {
        entry for entry, parts in tokens.items() if parts == [entry] and not has_number(entry) and not is_number(entry)
    }


def _number_words(language: str) -> Callable[[str], bool]:
    """Return what says whether a word of the language is a number; some languages have nothing that does."""
    if importlib.util.find_spec(f"spacy.lang.{language}.lex_attrs") is None:
        return lambda word: False
    attributes = importlib.import_module(f"spacy.lang.{language}.lex_attrs")
    found: Callable[[str], bool] = getattr(attributes, "like_num", lambda word: False)
    return found
