"""What the encoders made of PyTorch modules share: batches by length, pooling, frozen or trainable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.foundation.checks import require_one_of
from sfumato.latent import extras
from sfumato.latent.encoders.base import POOLINGS, Float32Array, TokenVectors, check_sentences

if TYPE_CHECKING:
    import torch

_TOKENS_AT_ONCE = 4096
"""How many token positions go through a network together: bounds memory whatever the sentences' lengths."""


class NeuralEncoder:
    """Base of the encoders that are a PyTorch module.

    Subclasses tokenise (:meth:`token_ids`) and run the network (:meth:`states`).
    """

    contextual = True

    def __init__(self, name: str, module: torch.nn.Module, dimension: int, max_tokens: int, pooling: str) -> None:
        require_one_of(POOLINGS, pooling=pooling)
        self.name = name
        self.module = module
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.pooling = pooling
        self.freeze()

    def freeze(self) -> None:
        """Hold the weights fixed; this is how an encoder is made."""
        self.module.requires_grad_(False).eval()

    def unfreeze(self) -> None:
        """Let the weights be trained, on public data."""
        self.module.requires_grad_(True)

    def token_ids(self, sentences: list[str]) -> list[list[int]]:
        """Return the public numbers of the tokens of each sentence, cut off at ``max_tokens``."""
        raise NotImplementedError

    def states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the vectors (sentences, tokens, dimension) of padded token numbers."""
        raise NotImplementedError

    def pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return one vector for each sentence from its token vectors."""
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "last":
            last = mask.sum(dim=1).clamp(min=1) - 1
            return states[range(len(states)), last]
        weights = mask.to(states.dtype).unsqueeze(-1)
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)

    def forward(self, sentences: Sequence[str]) -> torch.Tensor:
        """Return sentence vectors with their gradients, for training on public data."""
        ids, mask = self._padded(self.token_ids(check_sentences(sentences)))
        return self.pool(self.states(ids, mask), mask)

    def encode(self, sentences: Sequence[str]) -> Float32Array:
        """Return one vector for each sentence."""
        torch = extras.torch()
        numbers = self.token_ids(check_sentences(sentences))
        result = np.zeros((len(numbers), self.dimension), dtype=np.float32)
        self.module.eval()
        with torch.inference_mode():
            for places in _batches([len(one) for one in numbers]):
                ids, mask = self._padded([numbers[place] for place in places])
                result[places] = self.pool(self.states(ids, mask), mask).float().numpy()
        return result

    def encode_tokens(self, sentences: Sequence[str]) -> TokenVectors:
        """Return the vectors of the tokens of each sentence."""
        torch = extras.torch()
        numbers = self.token_ids(check_sentences(sentences))
        longest = max((len(one) for one in numbers), default=0)
        values = np.zeros((len(numbers), longest, self.dimension), dtype=np.float32)
        present = np.zeros((len(numbers), longest), dtype=bool)
        self.module.eval()
        with torch.inference_mode():
            for places in _batches([len(one) for one in numbers]):
                ids, mask = self._padded([numbers[place] for place in places])
                states = self.states(ids, mask).float() * mask.unsqueeze(-1)
                values[places, : ids.shape[1]] = states.numpy()
                present[places, : ids.shape[1]] = mask.numpy()
        return TokenVectors(values, present)

    def _padded(self, numbers: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        torch = extras.torch()
        longest = max(1, max((len(one) for one in numbers), default=0))
        ids = torch.zeros((len(numbers), longest), dtype=torch.long)
        mask = torch.zeros((len(numbers), longest), dtype=torch.bool)
        for row, one in enumerate(numbers):
            ids[row, : len(one)] = torch.tensor(one, dtype=torch.long)
            mask[row, : len(one)] = True
        return ids, mask


def _batches(lengths: list[int]) -> list[list[int]]:
    """Put sentences of like length together, so that little is spent on padding.

    >>> _batches([3000, 1, 2000])
    [[1, 2], [0]]
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > _TOKENS_AT_ONCE:
            batches.append(batch)
            batch = []
        batch.append(place)
    return [*batches, batch] if batch else batches
