"""Neural models for mask-token inference: any masked LM of Hugging Face, and a small head on a sentence encoder.

A real masked LM is given by its name or folder (:class:`HuggingFaceMaskedModel`).  Where there is none, as in a place
without a network, :func:`train_masked_head` trains a small head on the states of an encoder such as MiniLM; its name says
so, because it is weaker than a masked LM that was trained as a whole, and so is the attack.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.attacks.masked import Context, Floats
from sfumato.foundation.checks import gather, require_count, require_positive
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.latent import extras

_LONGEST = 96
"""Tokens around the hidden one that are looked at."""
_AT_ONCE = 32


class _Loaded:
    """A tokenizer and a network, and which of the words to guess are a single piece of it."""

    def __init__(
        self, model: str | Path, words: Sequence[str], kind: str, download: bool, label: str | None = None
    ) -> None:
        transformers = extras.transformers()
        options: dict[str, Any] = {"local_files_only": not download}
        self.label = label or os.path.basename(str(model))
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(str(model), **options)
            self.network = getattr(transformers, kind).from_pretrained(
                str(model), use_safetensors=True, dtype="float32", **options
            )
        except (OSError, ValueError) as error:
            raise DataError(
                f"no usable model {self.label!r} ({type(error).__name__}): give a folder with config.json, a tokenizer and "
                "model.safetensors, or allow the download of a name"
            ) from None
        self.network.eval()
        if self.tokenizer.mask_token_id is None:
            raise ParameterError(f"the tokenizer of {self.label!r} has no mask token; give a model of masked words")
        pieces = [self.tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        self.words = [word for word, ids in zip(words, pieces, strict=True) if len(ids) == 1]
        self.ids = np.array([ids[0] for ids in pieces if len(ids) == 1], dtype=np.int64)
        if not self.words:
            raise ParameterError(f"none of the words is a single piece of {self.label!r}; give words it knows")

    def inputs(self, contexts: Sequence[Context]) -> dict[str, Any]:
        """Return the padded ids of the texts with their hidden places masked."""
        mask = self.tokenizer.mask_token
        lines = []
        for tokens, place in contexts:
            start = max(0, place - _LONGEST // 2)
            near = list(tokens[start : start + _LONGEST])
            shown = [mask if start + number == place else token for number, token in enumerate(near)] or [mask]
            lines.append(" ".join(shown))
        limit = min(int(self.tokenizer.model_max_length), int(self.network.config.max_position_embeddings))
        found: dict[str, Any] = self.tokenizer(
            lines, padding=True, truncation=True, max_length=limit, return_tensors="pt"
        )
        return found

    def at_mask(self, outputs: Any, ids: Any) -> Any:
        """Return the outputs at the masked place of each text (at the first place where it was cut off)."""
        places = (ids == self.tokenizer.mask_token_id).int().argmax(dim=1)
        return outputs[range(len(places)), places]


class HuggingFaceMaskedModel:
    """A masked LM by name or folder; nothing is downloaded unless ``download`` is true.

    Only words that are a single piece of its tokenizer can be guessed.
    """

    def __init__(self, model: str | Path, words: Sequence[str], *, download: bool = False) -> None:
        self._loaded = _Loaded(model, words, "AutoModelForMaskedLM", download)
        self.words: Sequence[str] = self._loaded.words
        self.name = f"masked LM {self._loaded.label}"

    def scores(self, contexts: Sequence[Context]) -> Floats:
        """Return the logarithm of the chance of each word, up to a constant."""
        torch = extras.torch()
        found = []
        with torch.inference_mode():
            for start in range(0, len(contexts), _AT_ONCE):
                inputs = self._loaded.inputs(contexts[start : start + _AT_ONCE])
                logits = self._loaded.at_mask(self._loaded.network(**inputs).logits, inputs["input_ids"])
                found.append(torch.log_softmax(logits.double(), dim=1)[:, self._loaded.ids].numpy())
        return np.concatenate(found)


class MaskedHead:
    """A head on a frozen sentence encoder, trained to guess hidden words; see :func:`train_masked_head`."""

    def __init__(self, loaded: _Loaded, head: Any, examples: int) -> None:
        self._loaded, self._head = loaded, head
        self.words: Sequence[str] = loaded.words
        self.name = f"small head on {loaded.label}, trained on {examples} hidden words (weaker than a masked LM)"

    def scores(self, contexts: Sequence[Context]) -> Floats:
        """Return the logarithm of the chance of each word."""
        torch = extras.torch()
        with torch.inference_mode():
            return np.asarray(torch.log_softmax(self._head(_states(self._loaded, contexts)), dim=1).double().numpy())


def _states(loaded: _Loaded, contexts: Sequence[Context]) -> Any:
    torch = extras.torch()
    found = []
    with torch.inference_mode():
        for start in range(0, len(contexts), _AT_ONCE):
            inputs = loaded.inputs(contexts[start : start + _AT_ONCE])
            found.append(loaded.at_mask(loaded.network(**inputs).last_hidden_state, inputs["input_ids"]))
    return torch.cat(found).clone()


def _examples(texts: Sequence[Sequence[str]], known: set[str], count: int, seed: int) -> list[Context]:
    """Draw hidden places, each word of the texts equally likely."""
    places = [(tokens, place) for tokens in texts for place, token in enumerate(tokens) if token.lower() in known]
    if not places:
        raise ParameterError("none of the words to guess occurs in the texts to train on")
    chosen = np.random.default_rng([29, seed]).permutation(len(places))[:count]
    # Sorted by length, so that texts that are padded together are about equally long.
    return sorted((places[number] for number in chosen.tolist()), key=lambda context: len(context[0]))


def train_masked_head(
    encoder: str | Path,
    texts: Sequence[Sequence[str]],
    words: Sequence[str],
    *,
    examples: int = 20_000,
    epochs: int = 20,
    rate: float = 1e-3,
    seed: int = 0,
    download: bool = False,
    label: str | None = None,
) -> MaskedHead:
    """Train a head on the states of an encoder at hidden places of texts the attacker has.

    The encoder stays as it is; the head is one hidden layer and a softmax over the words, which begins with the
    encoder's own vectors of the words.  ``label`` is what the encoder is called in reports; its folder's name if not given.
    """
    gather(lambda: require_count(examples=examples, epochs=epochs), lambda: require_positive(rate=rate))
    torch = extras.torch()
    loaded = _Loaded(encoder, words, "AutoModel", download, label)
    index = {word: number for number, word in enumerate(loaded.words)}
    contexts = _examples(texts, set(index), examples, seed)
    labels = torch.tensor([index[tokens[place].lower()] for tokens, place in contexts])
    states = _states(loaded, contexts)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = _head(torch, loaded, states.shape[1])
        optimiser = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.01)
        for _ in range(epochs):
            for batch in torch.randperm(len(states)).split(128):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(head(states[batch]), labels[batch]).backward()
                optimiser.step()
    return MaskedHead(loaded, head.eval(), len(contexts))


def _head(torch: Any, loaded: _Loaded, width: int) -> Any:
    """Return the head of BERT with its output matrix restricted to the words."""
    layers = torch.nn
    output = layers.Linear(width, len(loaded.words))
    vectors: npt.NDArray[np.float32] = (
        loaded.network.get_input_embeddings().weight.detach().numpy()[loaded.ids].astype(np.float32)
    )
    if vectors.shape[1] == width:
        with torch.no_grad():
            output.weight.copy_(torch.from_numpy(vectors))
            output.bias.zero_()
    return layers.Sequential(layers.Linear(width, width), layers.GELU(), layers.LayerNorm(width), output)
