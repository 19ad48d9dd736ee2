"""Causal language models and encoders of Hugging Face, fine-tuned privately.

A model is given by the name of a repository (where one is reachable), by a folder, by a GGUF file, or made from a
configuration.  Nothing is downloaded unless a name is given.

>>> model = CausalModel.small(words=50, width=16, layers=1)
>>> 30 < model.figure(*model.measures(Batch(torch.tensor([[5, 6, 7, -1]]), pad=-1))) < 80  # about 50: it has learnt nothing
True
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.foundation.errors import DataError, MissingExtraError, ParameterError
from sfumato.training import extras
from sfumato.training.neural.batch import Batch, TextModel
from sfumato.training.sentences import Sentence

PAD = -1
"""Stands for no word piece: models have numbers of their own from 0."""


class CausalModel(TextModel):
    """A causal language model; the loss of a sentence is its mean loss per word piece, from the second on."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    @classmethod
    def load(cls, source: str | Path, *, file: str | None = None, dropout: bool = False) -> CausalModel:
        """Load a model by name or from a folder; ``file`` names a GGUF file inside it."""
        options: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "eager"}
        if file is not None:
            options["gguf_file"] = file
        auto = extras.transformers().AutoModelForCausalLM
        return cls(_quietened(_loaded(auto, source, options), dropout))

    @classmethod
    def small(cls, *, words: int, width: int = 64, layers: int = 2, heads: int = 2, places: int = 64) -> CausalModel:
        """Return a small model of the GPT-2 kind with weights drawn at random."""
        transformers = extras.transformers()
        config = transformers.GPT2Config(
            vocab_size=words, n_positions=places, n_embd=width, n_layer=layers, n_head=heads, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, attn_implementation="eager",
        )  # fmt: skip
        return cls(transformers.GPT2LMHeadModel(config))

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        ids, mask = batch.ids.clamp(min=0), batch.mask
        logits = self.network(
            input_ids=ids, attention_mask=mask.long(), position_ids=_places(ids), use_cache=False
        ).logits
        targets = batch.ids[:, 1:]
        losses = nn.functional.cross_entropy(
            logits[:, :-1].reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=PAD, reduction="none"
        ).view(targets.shape)
        return losses.sum(dim=1), mask[:, 1:].sum(dim=1)

    def losses(self, batch: Batch) -> Tensor:
        """Return the mean loss per word piece of each sentence."""
        if batch.ids.shape[1] < 2:
            return sum((p.sum() for p in self.parameters()), torch.zeros(())) * torch.zeros(len(batch))
        total, count = self._losses(batch)
        return total / count.clamp(min=1)

    def measures(self, batch: Batch) -> tuple[float, int]:
        """Return the total loss and the number of word pieces that were predicted."""
        if batch.ids.shape[1] < 2:
            return 0.0, 0
        total, count = self._losses(batch)
        return float(total.sum()), int(count.sum())

    def figure(self, total: float, count: int) -> float:
        """Return the perplexity per word piece."""
        return math.exp(min(total / max(count, 1), 700.0))


class EncoderClassifier(TextModel):
    """A linear head on the mean vector of any encoder; the encoder is frozen unless ``train_encoder`` is given."""

    def __init__(self, network: nn.Module, classes: int, *, train_encoder: bool = False) -> None:
        super().__init__()
        if classes < 2:
            raise ParameterError(f"classes must be a whole number, 2 or greater, got {classes}")
        self.network = network
        for parameter in network.parameters():
            parameter.requires_grad_(train_encoder)
        self.head = nn.Linear(int(network.config.hidden_size), classes)  # type: ignore[union-attr, arg-type]

    @classmethod
    def load(
        cls, source: str | Path, classes: int, *, train_encoder: bool = False, dropout: bool = False
    ) -> EncoderClassifier:
        """Load an encoder by name or from a folder."""
        options = {"dtype": torch.float32, "attn_implementation": "eager"}
        network = _quietened(_loaded(extras.transformers().AutoModel, source, options), dropout)
        return cls(network, classes, train_encoder=train_encoder)

    def logits(self, batch: Batch) -> Tensor:
        """Return the scores of the classes."""
        ids, mask = batch.ids.clamp(min=0), batch.mask
        given: dict[str, Tensor] = {"input_ids": ids, "attention_mask": mask.long(), "position_ids": _places(ids)}
        if hasattr(getattr(self.network, "embeddings", None), "token_type_embeddings"):
            given["token_type_ids"] = torch.zeros_like(ids)
        states = self.network(**given).last_hidden_state
        weights = mask.unsqueeze(2).to(states.dtype)
        return self.head((states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1))  # type: ignore[no-any-return]

    def losses(self, batch: Batch) -> Tensor:
        """Return the loss of each sentence's class."""
        return nn.functional.cross_entropy(self.logits(batch), _labels(batch), reduction="none")

    def measures(self, batch: Batch) -> tuple[float, int]:
        """Return the number of errors and of sentences."""
        return float((self.logits(batch).argmax(dim=1) != _labels(batch)).sum()), len(batch)


def encode(tokenizer: Any, sentences: Sequence[Sentence], length: int) -> Batch:
    """Return sentences as word pieces; an emptied sentence stays empty."""
    texts = [" ".join(sentence.tokens) for sentence in sentences]
    pieces = [
        tokenizer(text, add_special_tokens=True, truncation=True, max_length=length)["input_ids"] if text else []
        for text in texts
    ]
    rows = torch.full((len(pieces), length), PAD, dtype=torch.int64)
    for place, one in enumerate(pieces):
        rows[place, : len(one)] = torch.tensor(one, dtype=torch.int64)
    labels = [sentence.label for sentence in sentences]
    some = [label for label in labels if label is not None]
    if some and len(some) != len(labels):
        raise DataError(f"{len(labels) - len(some)} of {len(labels)} sentences have no label")
    return Batch(rows, torch.tensor(some) if some else None, PAD)


def load_tokenizer(source: str | Path, *, file: str | None = None) -> Any:
    """Load the tokenizer of a model by name or from a folder."""
    options = {} if file is None else {"gguf_file": file}
    return _loaded(extras.transformers().AutoTokenizer, source, options)


def _loaded(auto: Any, source: str | Path, options: dict[str, Any]) -> Any:
    try:
        return auto.from_pretrained(str(source), **options)
    except ImportError as error:
        raise MissingExtraError("gguf", "gguf") from error
    except (OSError, ValueError) as error:
        if "gguf_file" in options and importlib.util.find_spec("accelerate") is None:
            raise MissingExtraError("accelerate", "gguf") from error
        raise DataError(
            "the model cannot be loaded: give the folder of one that is on this machine, or a name where a hub is "
            f"reachable ({type(error).__name__})"
        ) from error


def _quietened(network: nn.Module, dropout: bool) -> nn.Module:
    """Return the network with its dropouts off: under clipping and noise they cost more than they bring."""
    if not dropout:
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    return network


def _places(ids: Tensor) -> Tensor:
    """Return the number of each place, for every sentence: a table that all share could not be told apart by sentence."""
    return torch.arange(ids.shape[1]).expand(ids.shape[0], -1)


def _labels(batch: Batch) -> Tensor:
    if batch.labels is None:
        raise ParameterError("a classifier needs sentences with labels")
    return batch.labels
