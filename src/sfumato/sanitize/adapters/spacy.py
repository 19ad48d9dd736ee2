"""The spaCy component ``sfumato``; importing this module makes spaCy know it.

>>> import spacy
>>> nlp = spacy.blank("en")
>>> _ = nlp.add_pipe("sfumato", config={"mechanism": "random", "words": 100})
>>> doc = nlp("The room was cold.")
>>> doc.text, doc._.sanitized.guarantee.promise()
('The room was cold.', 'The output does not depend on the protected input at all (epsilon 0).')
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sfumato.foundation.errors import MissingExtraError, ParameterError
from sfumato.foundation.guarantee import guarantee_from_json
from sfumato.sanitize.adapters.building import build_sanitizer
from sfumato.sanitize.sanitizer import Counts, SanitizedText, Sanitizer
from sfumato.space import Space

try:
    from spacy.language import Language
    from spacy.tokens import Doc
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "spacy":
        raise
    raise MissingExtraError("spacy", "spacy") from error

NAME = "sfumato"
_SETTINGS: dict[str, Any] = {
    "sanitizer": None,
    "epsilon": None,
    "mechanism": "tem",
    "words": None,
    "oov": "draw",
    "carry_case": True,
    "consistency": "token",
    "public_length": None,
    "replace": False,
}


class SfumatoComponent:
    """Sanitizes the text of every document.

    The result is at ``doc._.sanitized``.  The document itself still holds the original words, unless ``replace`` is set:
    then a new document of the sanitized text goes on through the pipeline.
    """

    def __init__(self, nlp: Language, sanitizer: Sanitizer, replace: bool = False) -> None:
        self._nlp = nlp
        self.sanitizer = sanitizer
        self.replace = replace

    def __call__(self, doc: Doc) -> Doc:
        """Sanitize one document."""
        done = self.sanitizer(doc.text)
        if self.replace:
            # The counts are for the owner of the text, who may hand this document on.
            doc, done = _following(doc, self._nlp.make_doc(done.text)), dataclasses.replace(done, counts=Counts())
        # Plain data, so that the document can still be written to a file and sent to another process.
        doc.user_data[NAME] = {
            "text": done.text,
            "guarantee": done.guarantee.to_json(),
            "counts": dataclasses.asdict(done.counts),
        }
        return doc


def _following(doc: Doc, new: Doc) -> Doc:
    """Return the new document with what ``nlp.pipe(..., as_tuples=True)`` gave along with the old one, and nothing else."""
    if hasattr(new, "_context"):  # no public attribute: a version without it has other ways
        new._context = getattr(doc, "_context", None)
    return new


def _sanitized(doc: Doc) -> SanitizedText | None:
    found = doc.user_data.get(NAME)
    if found is None:
        return None
    return SanitizedText(found["text"], guarantee_from_json(found["guarantee"]), Counts(**found["counts"]))


Doc.set_extension("sanitized", getter=_sanitized, force=True)


@Language.factory(NAME, default_config=_SETTINGS)
def sfumato_component(
    nlp: Language,
    name: str,
    sanitizer: Any,
    epsilon: float | None,
    mechanism: str,
    words: int | None,
    oov: str,
    carry_case: bool,
    consistency: str,
    public_length: int | None,
    replace: bool,
) -> SfumatoComponent:
    """Make the component from its settings, or from a ``sanitizer`` that a registered function returns.

    ``words`` takes the most frequent words of the default space only.
    """
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "mechanism": mechanism,
        "words": words,
        "oov": oov,
        "carry_case": carry_case,
        "consistency": consistency,
        "public_length": public_length,
    }
    if sanitizer is not None:
        if not isinstance(sanitizer, Sanitizer):
            raise ParameterError(f"sanitizer must be a Sanitizer, got a {type(sanitizer).__name__}")
        unused = [setting for setting, value in settings.items() if value != _SETTINGS[setting]]
        if unused:
            raise ParameterError(f"a ready sanitizer has its own settings; leave {', '.join(unused)} out")
        return SfumatoComponent(nlp, sanitizer, replace)
    settings["space"] = Space.load(limit=settings.pop("words"))
    return SfumatoComponent(nlp, build_sanitizer(**settings), replace)
