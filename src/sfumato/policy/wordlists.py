"""Stop words of many languages, from the package ``stop-words`` (extra ``policies``)."""

from __future__ import annotations

import importlib.metadata

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import Policy
from sfumato.policy.numbers import has_number
from sfumato.policy.optional import optional
from sfumato.policy.words import keep_words
from sfumato.text import pieces

_PACKAGE = "stop-words"


def stop_words(*languages: str) -> Policy:
    """Release the stop words of one or more languages as they are, in any letter case, and protect everything else.

    Languages are codes (``en``) or names (``english``); without any, English.  An entry of a list that is several
    tokens or has a digit in it is left out, so no number is ever kept.  The guarantee names the languages, the version
    of the lists and how many words they have; note that some of these words are also names (``Will``, ``May``).
    """
    library = optional("stop_words", _PACKAGE, "policies")
    chosen = languages or ("en",)
    known = {**{name: name for name in library.AVAILABLE_LANGUAGES}, **library.LANGUAGE_MAPPING}
    unknown = [place for place, language in enumerate(chosen) if language not in known]
    if unknown:
        raise ParameterError(
            f"there is no list of stop words for language {', '.join(map(str, unknown))} of those given; "
            f"there are lists for {', '.join(sorted(library.LANGUAGE_MAPPING))}"
        )
    names = sorted({known[language] for language in chosen})
    words = {word for name in names for entry in library.get_stop_words(name) if (word := _single_word(entry))}
    version = importlib.metadata.version(_PACKAGE)
    return keep_words(words, f"stop words ({', '.join(names)}; package {_PACKAGE} {version})")


def _single_word(entry: str) -> str:
    """Return the entry's only token, or nothing where it is not one."""
    tokens = pieces(entry)[1::2]
    return tokens[0] if len(tokens) == 1 and not has_number(tokens[0]) else ""
