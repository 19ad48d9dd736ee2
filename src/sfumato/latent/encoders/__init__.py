"""Encoders: public functions from sentences to vectors, fetched when they are first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.latent.encoders.base import Encoder, TokenVectors
    from sfumato.latent.encoders.bilstm import BiLstmEncoder
    from sfumato.latent.encoders.huggingface import HuggingFaceEncoder
    from sfumato.latent.encoders.projection import ProjectedEncoder, Projection
    from sfumato.latent.encoders.sentence import SentenceTransformerEncoder
    from sfumato.latent.encoders.training import train_on_public
    from sfumato.latent.encoders.words import WordMeanEncoder

_HOME_OF = {
    "BiLstmEncoder": "bilstm",
    "Encoder": "base",
    "HuggingFaceEncoder": "huggingface",
    "ProjectedEncoder": "projection",
    "Projection": "projection",
    "SentenceTransformerEncoder": "sentence",
    "TokenVectors": "base",
    "WordMeanEncoder": "words",
    "train_on_public": "training",
}

__all__ = [
    "BiLstmEncoder",
    "Encoder",
    "HuggingFaceEncoder",
    "ProjectedEncoder",
    "Projection",
    "SentenceTransformerEncoder",
    "TokenVectors",
    "WordMeanEncoder",
    "train_on_public",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
