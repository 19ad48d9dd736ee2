"""Sentences as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sfumato.foundation.errors import DataError
from sfumato.training.sentences import Sentence
from sfumato.training.vocabulary import PAD, Vocabulary


@dataclass(frozen=True, repr=False)
class Batch:
    """Rows of word numbers, padded at the end, and labels where there are some."""

    ids: Tensor
    labels: Tensor | None = None
    pad: int = PAD
    """What stands for no word."""

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    def __repr__(self) -> str:
        return f"Batch({len(self)} sentences)"

    @property
    def mask(self) -> Tensor:
        """Which places hold a word."""
        return self.ids != self.pad

    def take(self, places: Sequence[int] | npt.NDArray[np.intp]) -> Batch:
        """Return some of the sentences, without columns of padding."""
        chosen = torch.as_tensor(np.asarray(places, dtype=np.int64))
        ids = self.ids[chosen]
        longest = int((ids != self.pad).sum(dim=1).max()) if len(ids) else 0
        return Batch(ids[:, : max(longest, 1)], None if self.labels is None else self.labels[chosen], self.pad)

    def chunks(self, size: int) -> Iterator[Batch]:
        """Return the sentences in pieces."""
        for start in range(0, len(self), size):
            yield self.take(range(start, min(start + size, len(self))))

    @classmethod
    def of(cls, sentences: Sequence[Sentence], vocabulary: Vocabulary, length: int) -> Batch:
        """Return sentences as a batch; labels are taken where all sentences have one."""
        labels = [sentence.label for sentence in sentences]
        some = [label for label in labels if label is not None]
        if some and len(some) != len(labels):
            raise DataError(f"{len(labels) - len(some)} of {len(labels)} sentences have no label")
        ids = torch.from_numpy(vocabulary.table(sentences, length))
        return cls(ids, torch.tensor(some, dtype=torch.int64) if some else None)


class TextModel(nn.Module):
    """A model that gives each sentence a loss of its own, which depends on that sentence alone."""

    def losses(self, batch: Batch) -> Tensor:
        """Return one loss for each sentence."""
        raise NotImplementedError

    def measures(self, batch: Batch) -> tuple[float, int]:
        """Return a sum and a count whose quotient is the figure of merit: loss per word, or errors per sentence."""
        raise NotImplementedError

    def figure(self, total: float, count: int) -> float:
        """Return the figure that is reported: perplexity, or the share of errors."""
        return total / max(count, 1)

    def prepare(self) -> None:
        """Draw what is random for a whole step, and the same for all sentences (dropped weights)."""


@torch.no_grad()
def evaluate(model: TextModel, batch: Batch, chunk: int = 256) -> float:
    """Return the figure of merit on held-out sentences."""
    training = model.training
    model.eval()
    total, count = 0.0, 0
    for piece in batch.chunks(chunk):
        some, many = model.measures(piece)
        total, count = total + some, count + many
    model.train(training)
    return model.figure(total, count)


def word_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss per word of each sentence; padding does not count."""
    losses = nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=PAD, reduction="none"
    ).view(targets.shape)
    return losses.sum(dim=1) / (targets != PAD).sum(dim=1).clamp(min=1)
