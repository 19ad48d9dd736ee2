"""Training an encoder on PUBLIC labelled sentences, before it is published.

The owners' sentences must never be used here: an encoder is published, and what it has learnt it tells.  The noise of the
layer can take part, so that the encoder learns representations that survive it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.foundation.checks import gather, require_count, require_positive
from sfumato.foundation.errors import DataError, MissingExtraError
from sfumato.latent.encoders.base import check_sentences
from sfumato.latent.encoders.neural import NeuralEncoder
from sfumato.latent.labels import checked_labels
from sfumato.latent.layer import GaussianLayer

try:
    import torch
except ImportError as error:
    raise MissingExtraError("torch", "torch") from error


def train_on_public(
    encoder: NeuralEncoder,
    sentences: Sequence[str],
    labels: Sequence[int],
    *,
    classes: int,
    layer: GaussianLayer | None = None,
    epochs: int = 3,
    batch: int = 32,
    rate: float = 1e-3,
    seed: int = 0,
) -> list[float]:
    """Train an encoder with a throw-away linear head, freeze it, and return the mean loss of each epoch.

    With ``layer`` (position "sentence"), vectors are clipped and noised on the way to the head.
    """
    gather(lambda: require_count(epochs=epochs, batch=batch, classes=classes), lambda: require_positive(rate=rate))
    texts, targets = check_sentences(sentences), torch.from_numpy(checked_labels(list(labels), classes))
    if len(texts) != len(targets) or not texts:
        raise DataError(f"every public sentence needs a label; there are {len(texts)} and {len(targets)}")
    order = torch.Generator().manual_seed(seed)
    head = torch.nn.Linear(encoder.dimension, classes)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    encoder.unfreeze()
    encoder.module.train()
    optimiser = torch.optim.Adam([*encoder.module.parameters(), *head.parameters()], lr=rate)
    losses = []
    try:
        for _ in range(epochs):
            total = 0.0
            for places in torch.randperm(len(texts), generator=order).split(batch):  # type: ignore[no-untyped-call]
                vectors = encoder.forward([texts[place] for place in places.tolist()])
                seen = vectors if layer is None else layer(vectors)
                loss = torch.nn.functional.cross_entropy(head(seen), targets[places])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                total += float(loss.detach()) * len(places)
            losses.append(total / len(texts))
    finally:
        encoder.freeze()
    return losses
