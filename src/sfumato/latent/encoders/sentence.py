"""Models of the sentence-transformers package, which bring their own pooling."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import DataError
from sfumato.latent import extras
from sfumato.latent.encoders.base import Float32Array, TokenVectors, check_sentences

_AT_ONCE = 32


class SentenceTransformerEncoder:
    """A sentence-transformers model from a folder or, with ``download``, by name.

    The model's own steps (pooling, scaling to unit length) are applied as it asks for them.
    """

    contextual = True

    def __init__(self, model: str | Path, *, max_tokens: int | None = None, download: bool = False) -> None:
        require_count(max_tokens=1 if max_tokens is None else max_tokens)
        package = extras.sentence_transformers()
        try:
            self.model = package.SentenceTransformer(str(model), device="cpu", local_files_only=not download)
        except (OSError, ValueError) as error:
            raise DataError(
                f"no usable model {os.path.basename(str(model))!r} ({type(error).__name__}): give the folder of a "
                "sentence-transformers model, or allow the download of a name"
            ) from None
        self.model.requires_grad_(False).eval()
        if max_tokens is not None:
            self.model.max_seq_length = min(max_tokens, self.model.max_seq_length or max_tokens)
        self.name = Path(str(model)).name
        self.max_tokens = int(self.model.max_seq_length or 512)
        measure = getattr(self.model, "get_embedding_dimension", None) or self.model.get_sentence_embedding_dimension
        self.dimension = int(measure())

    def encode(self, sentences: Sequence[str]) -> Float32Array:
        """Return one vector for each sentence."""
        texts = check_sentences(sentences)
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.asarray(self.model.encode(texts, batch_size=_AT_ONCE, show_progress_bar=False), dtype=np.float32)

    def encode_tokens(self, sentences: Sequence[str]) -> TokenVectors:
        """Return the vectors of the tokens of each sentence, special tokens included."""
        texts = check_sentences(sentences)
        found = [
            one.float().numpy()
            for one in (
                self.model.encode(texts, batch_size=_AT_ONCE, output_value="token_embeddings", show_progress_bar=False)
                if texts
                else []
            )
        ]
        longest = max((len(one) for one in found), default=0)
        values = np.zeros((len(found), longest, self.dimension), dtype=np.float32)
        mask = np.zeros((len(found), longest), dtype=bool)
        for row, one in enumerate(found):
            values[row, : len(one)] = one
            mask[row, : len(one)] = True
        return TokenVectors(values, mask)
