"""Any Hugging Face model as an encoder, from a folder or by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.foundation.checks import gather, require_count, require_one_of
from sfumato.foundation.errors import DataError
from sfumato.latent import extras
from sfumato.latent.encoders.neural import NeuralEncoder

if TYPE_CHECKING:
    import torch

_POOLINGS = ("mean", "cls")
_DOES_NOT_MATTER = 10**6
"""Tokenizers without a limit of their own report a huge number."""


class HuggingFaceEncoder(NeuralEncoder):
    """An ``AutoModel`` with its tokenizer; pools the mean of the tokens or takes the first ([CLS]).

    Nothing is downloaded unless ``download`` is true: a name is then looked for in the local cache only.  Weights are
    read from safetensors files; a pickle can run any program and is refused.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        pooling: str = "mean",
        max_tokens: int | None = None,
        download: bool = False,
    ) -> None:
        gather(
            lambda: require_one_of(_POOLINGS, pooling=pooling),
            lambda: require_count(max_tokens=1 if max_tokens is None else max_tokens),
        )
        transformers = extras.transformers()
        options: dict[str, Any] = {"local_files_only": not download}
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(model), **options)
            network = transformers.AutoModel.from_pretrained(
                str(model), use_safetensors=True, dtype="float32", **options
            )
        except (OSError, ValueError) as error:
            raise DataError(
                f"no usable model {os.path.basename(str(model))!r} ({type(error).__name__}): give a folder with "
                "config.json, a tokenizer and model.safetensors, or allow the download of a name"
            ) from None
        config = network.config
        limit = min(self._tokenizer.model_max_length, getattr(config, "max_position_embeddings", _DOES_NOT_MATTER))
        longest = min(max_tokens or limit, limit, _DOES_NOT_MATTER)
        super().__init__(Path(str(model)).name, network, int(config.hidden_size), int(longest), pooling)

    def token_ids(self, sentences: list[str]) -> list[list[int]]:
        """Return the tokenizer's numbers, special tokens included."""
        if not sentences:
            return []
        encoded = self._tokenizer(sentences, truncation=True, max_length=self.max_tokens, padding=False)
        return [list(numbers) for numbers in encoded["input_ids"]]

    def states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the last hidden states."""
        states: torch.Tensor = self.module(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return states

    def save(self, folder: str | Path) -> None:
        """Write the model and its tokenizer into a folder that this class reads."""
        network: Any = self.module
        network.save_pretrained(str(folder), safe_serialization=True)
        self._tokenizer.save_pretrained(str(folder))
