"""Structured personal data, found by Presidio's recognisers (extra ``presidio``).

The recognisers used here are patterns with checks and need no language model.  Where Presidio would look up a list of
top-level domains on the network (e-mail addresses) the pattern alone decides, so nothing is fetched and addresses at
domains of one's own network are protected too.
"""

from __future__ import annotations

import re
import string
import time
from collections.abc import Callable, Sequence
from typing import Any

from sfumato.foundation.checks import require_share
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.policy.base import CHOSEN_IN_CONTEXT, Document, Mask, Policy
from sfumato.policy.optional import optional
from sfumato.policy.plain import plain
from sfumato.policy.spans import encodable, touched

DEFAULT_ENTITIES = ("CREDIT_CARD", "US_SSN", "PHONE_NUMBER", "EMAIL_ADDRESS", "IBAN_CODE")
_RECOGNISERS = {
    "CREDIT_CARD": "CreditCardRecognizer",
    "US_SSN": "UsSsnRecognizer",
    "PHONE_NUMBER": "PhoneRecognizer",
    "EMAIL_ADDRESS": "EmailRecognizer",
    "IBAN_CODE": "IbanRecognizer",
    "IP_ADDRESS": "IpRecognizer",
    "URL": "UrlRecognizer",
}
_EVERY_RESULT = 0.0
_WORD = re.compile("[0-9A-Za-z]+")
_CAPITALS = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


class _Presidio(Policy):
    def __init__(self, entities: tuple[str, ...], regions: tuple[str, ...], least_score: float) -> None:
        self._entities, self._regions, self._least_score = entities, regions, least_score
        self._recognisers = [_recogniser(entity, regions) for entity in entities]
        self._patience = _patience()

    def __reduce__(self) -> tuple[Callable[..., Policy], tuple[Any, ...]]:
        """Travel as what it was made from."""
        return type(self), (self._entities, self._regions, self._least_score)

    @property
    def keeps(self) -> str:
        return _keeps(self._entities)

    def protects(self, document: Document) -> Mask:
        spans, written = [], _written(document.text)
        for entity, recogniser in zip(self._entities, self._recognisers, strict=True):
            for text in _in_capitals(written) if entity == "IBAN_CODE" else written:
                spans += self._found(recogniser, text)
        return touched(document, spans)

    def _found(self, recogniser: Any, text: str) -> list[tuple[int, int]]:
        began = time.monotonic()
        results = recogniser.analyze(text, recogniser.supported_entities, None)
        if time.monotonic() - began >= self._patience:
            # Presidio leaves a pattern out that takes this long: what it would have found would pass unprotected.
            raise DataError(
                "a Presidio recogniser gave up on a record because it took too long; cut the record into shorter "
                "ones, or set the environment variable REGEX_TIMEOUT_SECONDS to more seconds"
            )
        return [(result.start, result.end) for result in results or () if result.score >= self._least_score]


class _Analyzer(Policy):
    def __init__(self, analyzer: Any, language: str, entities: tuple[str, ...] | None, least_score: float) -> None:
        self._analyzer, self._language, self._entities, self._least_score = analyzer, language, entities, least_score

    @property
    def keeps(self) -> str:
        return _keeps(self._entities or ("everything its analyzer knows",))

    def protects(self, document: Document) -> Mask:
        results = self._analyzer.analyze(
            text=encodable(document.text),
            language=self._language,
            entities=list(self._entities) if self._entities else None,
            score_threshold=self._least_score,
        )
        return touched(document, [(result.start, result.end) for result in results])


def presidio(
    entities: Sequence[str] | None = None,
    *,
    regions: Sequence[str] = (),
    least_score: float = _EVERY_RESULT,
    analyzer: Any = None,
    language: str = "en",
) -> Policy:
    """Protect the structured personal data that Presidio finds, and release the rest as it is.

    By default card numbers, US social security numbers, phone numbers, e-mail addresses and IBANs; ``IP_ADDRESS`` and
    ``URL`` can be asked for.  ``regions`` are the countries (``US``, ``DE``, ...) whose phone numbers are known without
    an international prefix; ``least_score`` leaves out results that Presidio is less sure of.  Texts are looked through as
    they are and with no-break spaces, dashes, digits of other scripts and the like made plain, and IBANs in either case.

    An ``AnalyzerEngine`` of one's own, with its language model, is used instead if it is given as ``analyzer``; it then
    decides which ``entities`` there are.
    """
    require_share(least_score=least_score)
    if isinstance(entities, str):
        raise ParameterError("entities must be a list of names, not a single string")
    if analyzer is not None:
        if not hasattr(analyzer, "analyze"):
            raise ParameterError("analyzer must be a presidio_analyzer.AnalyzerEngine")
        return _Analyzer(analyzer, language, tuple(entities) if entities else None, least_score)
    chosen = tuple(dict.fromkeys(DEFAULT_ENTITIES if entities is None else entities))
    unknown = [str(place) for place, entity in enumerate(chosen) if entity not in _RECOGNISERS]
    if unknown or not chosen:
        raise ParameterError(
            f"entities must be some of {', '.join(_RECOGNISERS)}"
            + (f"; number {', '.join(unknown)} of those given is not" if unknown else "")
            + "; for others give an analyzer of your own"
        )
    return _Presidio(chosen, tuple(regions), least_score)


def _written(text: str) -> list[str]:
    """Return the text as it is and in plain characters, in which Presidio knows numbers; places are the same in both."""
    return list(dict.fromkeys((encodable(text), encodable(plain(text)))))


def _in_capitals(texts: Sequence[str]) -> list[str]:
    """Return texts with small letters, in which Presidio knows no IBAN, made capitals: in words with a digit, and in all.

    A word behind an IBAN that is in capitals too may be taken for a part of it, so each way finds what others miss.
    """
    with_digit = [_WORD.sub(lambda word: word[0] if word[0].isalpha() else _capital(word[0]), text) for text in texts]
    return list(dict.fromkeys((*texts, *with_digit, *map(_capital, texts))))


def _capital(text: str) -> str:
    return text.translate(_CAPITALS)


def _keeps(entities: Sequence[str]) -> str:
    return (
        f"every token outside what Presidio recognises as {', '.join(entities)}, personal data that it overlooks among "
        f"them; {CHOSEN_IN_CONTEXT}"
    )


def _recogniser(entity: str, regions: Sequence[str]) -> Any:
    library = optional("presidio_analyzer.predefined_recognizers", "presidio-analyzer", "presidio")
    kind = getattr(library, _RECOGNISERS[entity])
    if entity == "EMAIL_ADDRESS":
        plain = optional("presidio_analyzer", "presidio-analyzer", "presidio").PatternRecognizer
        return plain(supported_entity=entity, patterns=list(kind.PATTERNS))
    if entity == "PHONE_NUMBER" and regions:
        return kind(supported_regions=tuple(regions))
    return kind()


def _patience() -> float:
    module = optional("presidio_analyzer.pattern_recognizer", "presidio-analyzer", "presidio")
    return float(module.REGEX_TIMEOUT_SECONDS)
