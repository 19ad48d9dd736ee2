"""Two layers of bidirectional LSTM over the word vectors of a space."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.foundation.checks import gather, require_count
from sfumato.foundation.errors import DataError, MissingExtraError
from sfumato.latent import extras
from sfumato.latent.encoders.neural import NeuralEncoder
from sfumato.latent.encoders.words import space_matrix, word_numbers
from sfumato.space import Space

try:
    import torch
except ImportError as error:
    raise MissingExtraError("torch", "torch") from error

if TYPE_CHECKING:
    from torch import Tensor


class _Network(torch.nn.Module):
    """An LSTM whose word vectors are fixed and not among its weights."""

    def __init__(self, vectors: Tensor, hidden: int, layers: int) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors, persistent=False)
        self.lstm = torch.nn.LSTM(vectors.shape[1], hidden, layers, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        words = self.get_buffer("vectors")[ids]
        lengths = mask.sum(dim=1).clamp(min=1)
        packed = torch.nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed)
        unpacked, _ = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=ids.shape[1])
        return unpacked * mask.unsqueeze(-1)


class BiLstmEncoder(NeuralEncoder):
    """A bidirectional LSTM over a space; train it on public data (:mod:`sfumato.latent.encoders.training`).

    Fresh weights follow from ``seed``: they are public, and only noise must not have a seed.

    >>> space = Space.from_arrays(["cold", "warm"], [[0.0, 1.0], [2.0, 3.0]])
    >>> BiLstmEncoder(space, hidden=3).encode(["warm cold", ""]).shape
    (2, 6)
    """

    def __init__(
        self,
        space: Space,
        *,
        hidden: int = 64,
        layers: int = 2,
        pooling: str = "mean",
        max_tokens: int = 256,
        seed: int = 0,
    ) -> None:
        gather(lambda: require_count(hidden=hidden, layers=layers, max_tokens=max_tokens))
        self.space = space
        self.hidden = hidden
        self.layers = layers
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _Network(torch.from_numpy(space_matrix(space)), hidden, layers)
        super().__init__(f"BiLSTM over {space.name}", network, 2 * hidden, max_tokens, pooling)

    def token_ids(self, sentences: list[str]) -> list[list[int]]:
        """Return the places of the words in the space; words it does not have are left out."""
        return word_numbers(self.space, sentences, self.max_tokens)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the states of both directions, side by side."""
        result: Tensor = self.module(ids, mask)
        return result

    def save(self, folder: str | Path) -> None:
        """Write the weights and the shape; the space is published beside them."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        extras.safetensors().save_file(self.module.state_dict(), str(target / "bilstm.safetensors"))
        shape = {
            "hidden": self.hidden,
            "layers": self.layers,
            "pooling": self.pooling,
            "max_tokens": self.max_tokens,
            "space": self.space.digest,
        }
        (target / "bilstm.json").write_text(json.dumps(shape, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, space: Space) -> BiLstmEncoder:
        """Read what :meth:`save` wrote, over the same space."""
        source = Path(folder)
        shape = json.loads((source / "bilstm.json").read_text(encoding="utf-8"))
        if shape.pop("space") != space.digest:
            raise DataError("the encoder was trained over another space; give that one")
        encoder = cls(space, **shape)
        encoder.module.load_state_dict(extras.safetensors().load_file(str(source / "bilstm.safetensors")))
        return encoder
