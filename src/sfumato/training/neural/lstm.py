"""Language model and classifier in the style of AWD-LSTM (Merity, Keskar and Socher 2018).

Tied embeddings, and the dropouts of the paper: whole words of the embedding, locked dropout between layers (one mask for
all places of a sentence), and dropped recurrent weights.  The dropped weights are drawn once for a step, for all
sentences alike, so that a sentence's gradient depends on no other sentence.  The hidden state starts anew with each
sentence, where the paper carries it over: otherwise one sentence would reach into the gradient of the next.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sfumato.foundation.checks import gather, require_count, require_share
from sfumato.foundation.errors import ParameterError
from sfumato.training.neural.batch import Batch, TextModel, word_losses
from sfumato.training.vocabulary import END


@dataclass(frozen=True, kw_only=True)
class LSTMConfig:
    """Sizes and dropouts; the defaults of the dropouts are the paper's, the sizes are for a small machine."""

    vocabulary: int
    embedding: int = 64
    hidden: int = 128
    layers: int = 3
    classes: int = 0
    """0 for a language model."""
    dropout_output: float = 0.4
    dropout_hidden: float = 0.3
    dropout_input: float = 0.65
    dropout_words: float = 0.1
    dropout_weights: float = 0.5
    freeze_embedding: bool = False
    """Keep the (public) word vectors as they are: fewer parameters that need noise."""

    def __post_init__(self) -> None:
        """Check the sizes."""
        shares = {name: value for name, value in asdict(self).items() if name.startswith("dropout")}
        gather(
            lambda: require_count(
                vocabulary=self.vocabulary, embedding=self.embedding, hidden=self.hidden, layers=self.layers
            ),
            lambda: require_share(**shares),
        )
        if any(value >= 1 for value in shares.values()) or self.classes < 0 or self.classes == 1:
            raise ParameterError("dropouts must be below 1, and classes 0 (language model) or at least 2")

    def without_dropout(self) -> dict[str, Any]:
        """Return these settings with all dropouts at 0: under noise and clipping they seldom help."""
        return {name: 0.0 if name.startswith("dropout") else value for name, value in asdict(self).items()}


class DroppedLinear(nn.Linear):
    """A linear map some of whose weights are dropped, the same for all sentences of a step."""

    weight_mask: Tensor | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the map."""
        weight = self.weight if self.weight_mask is None else self.weight * self.weight_mask
        return nn.functional.linear(inputs, weight, self.bias)


class LSTMLayer(nn.Module):
    """One layer, written out step by step so that every product of weights and inputs can be recorded."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.size = hidden
        self.inputs = nn.Linear(inputs, 4 * hidden)
        self.recurrent = DroppedLinear(hidden, 4 * hidden, bias=False)
        with torch.no_grad():
            self.inputs.bias[hidden : 2 * hidden] = 1.0  # remember by default

    def forward(self, sequence: Tensor) -> Tensor:
        """Return the outputs of all places."""
        gates = self.inputs(sequence)
        size = gates.shape[-1] // 4
        output, cell = gates.new_zeros(len(gates), size), gates.new_zeros(len(gates), size)
        outputs = []
        for place in range(gates.shape[1]):
            output, cell = self._next(gates[:, place], output, cell)
            outputs.append(output)
        return torch.stack(outputs, dim=1)

    def advance(self, values: Tensor, output: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the cell after one more place."""
        return self._next(self.inputs(values), output, cell)

    def _next(self, gates: Tensor, output: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        taken, kept, new, shown = (gates + self.recurrent(output)).chunk(4, dim=1)
        cell = torch.sigmoid(kept) * cell + torch.sigmoid(taken) * torch.tanh(new)
        return torch.sigmoid(shown) * torch.tanh(cell), cell


class LSTMModel(TextModel):
    """Next-word prediction, or classification where the configuration has classes."""

    def __init__(self, config: LSTMConfig, vectors: npt.NDArray[np.float32] | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        sizes = [config.embedding] + [config.hidden] * (config.layers - 1)
        sizes.append(config.hidden if config.classes else config.embedding)
        self.lstms = [LSTMLayer(one, other) for one, other in itertools.pairwise(sizes)]
        self.layers = nn.ModuleList(self.lstms)
        with torch.no_grad():
            if vectors is None:
                self.embedding.weight.uniform_(-0.1, 0.1)
            else:
                self.embedding.weight.copy_(torch.from_numpy(vectors))
        if config.classes:
            self.decoder = nn.Linear(2 * config.hidden, config.classes)
        else:
            self.decoder = nn.Linear(config.embedding, config.vocabulary)
            self.decoder.weight = self.embedding.weight
        if config.freeze_embedding:
            self.embedding.weight.requires_grad_(False)

    def extra_repr(self) -> str:
        """Return the configuration."""
        return str(self.config)

    def prepare(self) -> None:
        """Draw the dropped recurrent weights of a step."""
        share = self.config.dropout_weights if self.training else 0.0
        for layer in self.lstms:
            weight = layer.recurrent.weight
            mask = torch.empty_like(weight).bernoulli_(1 - share) / (1 - share) if share else None
            layer.recurrent.weight_mask = mask

    def train(self, mode: bool = True) -> LSTMModel:
        """Go into training or evaluation; evaluation uses all weights."""
        super().train(mode)
        for layer in self.lstms:
            layer.recurrent.weight_mask = None
        return self

    def states(self, ids: Tensor) -> Tensor:
        """Return the outputs of the last layer."""
        c = self.config
        words = self.embedding(ids)
        if self.training and c.dropout_words:
            # A dropped word is dropped wherever it stands in the sentence.
            kept = torch.rand(len(ids), c.vocabulary) >= c.dropout_words
            words = words * torch.gather(kept, 1, ids).unsqueeze(2) / (1 - c.dropout_words)
        outputs = self._locked(words, c.dropout_input)
        for number, layer in enumerate(self.lstms):
            outputs = layer(outputs)
            last = number == len(self.layers) - 1
            outputs = self._locked(outputs, c.dropout_output if last else c.dropout_hidden)
        return outputs

    def _locked(self, values: Tensor, share: float) -> Tensor:
        if not self.training or not share:
            return values
        kept = torch.rand(values.shape[0], 1, values.shape[2]) >= share
        return values * kept / (1 - share)

    def logits(self, batch: Batch) -> Tensor:
        """Return the scores of the next words at each place, or of the classes."""
        if self.config.classes:
            states, mask = self.states(batch.ids), batch.mask.unsqueeze(2)
            mean = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            most = states.masked_fill(~mask, -math.inf).amax(dim=1)
            return self.decoder(torch.cat([mean, most.clamp(min=-1e4)], dim=1))  # type: ignore[no-any-return]
        return self.decoder(self.states(_shifted(batch.ids)))  # type: ignore[no-any-return]

    def losses(self, batch: Batch) -> Tensor:
        """Return the loss of each sentence: per word, or of its class."""
        if self.config.classes:
            return nn.functional.cross_entropy(self.logits(batch), _labels(batch), reduction="none")
        return word_losses(self.logits(batch), batch.ids)

    def measures(self, batch: Batch) -> tuple[float, int]:
        """Return the total loss and the number of words, or the errors and the number of sentences."""
        if self.config.classes:
            return float((self.logits(batch).argmax(dim=1) != _labels(batch)).sum()), len(batch)
        words = batch.mask.sum(dim=1)
        return float((self.losses(batch) * words).sum()), int(words.sum())

    def figure(self, total: float, count: int) -> float:
        """Return the perplexity, or the share of errors."""
        mean = total / max(count, 1)
        return mean if self.config.classes else math.exp(min(mean, 700.0))


def _shifted(ids: Tensor) -> Tensor:
    """Return what precedes each word: the sentence begins after an end."""
    return torch.cat([torch.full_like(ids[:, :1], END), ids[:, :-1]], dim=1)


def _labels(batch: Batch) -> Tensor:
    if batch.labels is None:
        raise ParameterError("a classifier needs sentences with labels")
    return batch.labels


__all__ = ["DroppedLinear", "LSTMConfig", "LSTMLayer", "LSTMModel"]
