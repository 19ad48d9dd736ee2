"""The server's half: a linear or two-layer head that is trained on noisy vectors.

Everything here is post-processing of what was released: no number of epochs costs privacy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_count, require_non_negative, require_one_of, require_positive
from sfumato.foundation.errors import DataError, MissingExtraError, ParameterError
from sfumato.latent import extras
from sfumato.latent.labels import checked_labels
from sfumato.latent.vectors import pair_features, require_finite

try:
    import torch
except ImportError as error:
    raise MissingExtraError("torch", "torch") from error

KINDS = ("linear", "mlp")
SOLVERS = ("converge", "epochs")
_FORMAT = "sfumato head 1"


@dataclass(frozen=True)
class HeadSettings:
    """The shape of a head and how it is trained."""

    dimension: int
    classes: int
    kind: str = "linear"
    hidden: int = 64
    solver: str = "converge"
    """A linear head is fitted to convergence (L-BFGS), or by epochs of Adam like a two-layer one."""
    pairs: bool = False
    """Vectors are two sentences side by side, which the head compares."""
    scale: float = 1.0
    """Public size of one coordinate of a noisy vector; inputs are divided by it."""
    epochs: int = 20
    batch: int = 256
    rate: float = 2e-3
    decay: float | None = None
    """Strength of the l2 penalty; where none is given, dimension / number of vectors."""
    seed: int = 0

    def __post_init__(self) -> None:
        gather(
            lambda: require_count(
                dimension=self.dimension,
                classes=self.classes,
                hidden=self.hidden,
                epochs=self.epochs,
                batch=self.batch,
            ),
            lambda: require_positive(scale=self.scale, rate=self.rate),
            lambda: require_non_negative(decay=0.0 if self.decay is None else self.decay),
            lambda: require_one_of(KINDS, kind=self.kind),
            lambda: require_one_of(SOLVERS, solver=self.solver),
        )
        if self.classes < 2:
            raise ParameterError(f"there must be at least 2 classes, got {self.classes}")
        if self.pairs and self.dimension % 2:
            raise ParameterError("a pair has two vectors of one size: its dimension is even")

    @property
    def inputs(self) -> int:
        """How many numbers the first layer takes."""
        return self.dimension * (2 if self.pairs else 1)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights of a head by name, and their shapes."""
        if self.kind == "linear":
            return {"weight": (self.classes, self.inputs), "bias": (self.classes,)}
        first = {"0.weight": (self.hidden, self.inputs), "0.bias": (self.hidden,)}
        return {**first, "2.weight": (self.classes, self.hidden), "2.bias": (self.classes,)}


class Head:
    """A classifier of noisy vectors.

    >>> vectors = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    >>> head = Head(HeadSettings(dimension=1, classes=2, decay=0.01))
    >>> head.fit(vectors, [0, 0, 1, 1]).predict(vectors).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, settings: HeadSettings) -> None:
        self.settings = settings
        inputs = settings.inputs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            if settings.kind == "linear":
                self.module: torch.nn.Module = torch.nn.Linear(inputs, settings.classes)
                torch.nn.init.zeros_(self.module.weight)
                torch.nn.init.zeros_(self.module.bias)
            else:
                self.module = torch.nn.Sequential(
                    torch.nn.Linear(inputs, settings.hidden),
                    torch.nn.ReLU(),
                    torch.nn.Linear(settings.hidden, settings.classes),
                )
        self.seen = 0
        self._optimiser: torch.optim.Optimizer | None = None

    def fit(
        self, vectors: npt.ArrayLike, labels: npt.ArrayLike, transition: npt.NDArray[np.float64] | None = None
    ) -> Head:
        """Train in one go.  ``transition`` is P(label sent | true label) where labels went through randomised response."""
        inputs, targets = self._data(vectors, labels)
        if len(inputs) == 0:
            raise DataError("there are no vectors to train on")
        self.seen = len(inputs)
        noisy = None if transition is None else torch.from_numpy(transition).float()
        if self.settings.kind == "linear" and self.settings.solver == "converge":
            self._converge(inputs, targets, noisy)
            return self
        return self.fit_epochs(((vectors, labels) for _ in range(self.settings.epochs)), transition)

    def fit_epochs(
        self,
        epochs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
        transition: npt.NDArray[np.float64] | None = None,
    ) -> Head:
        """Train one pass over the vectors of each epoch, which may be other vectors every time (fresh noise)."""
        order = torch.Generator().manual_seed(self.settings.seed)
        optimiser = torch.optim.Adam(self.module.parameters(), lr=self.settings.rate)
        noisy = None if transition is None else torch.from_numpy(transition).float()
        for vectors, labels in epochs:
            inputs, targets = self._data(vectors, labels)
            self.seen = max(self.seen, len(inputs))
            for places in torch.randperm(len(inputs), generator=order).split(self.settings.batch):  # type: ignore[no-untyped-call]
                self._step(optimiser, inputs[places], targets[places], noisy, len(inputs))
        return self

    def partial_fit(
        self, vectors: npt.ArrayLike, labels: npt.ArrayLike, transition: npt.NDArray[np.float64] | None = None
    ) -> Head:
        """Take one step on vectors that have just arrived."""
        inputs, targets = self._data(vectors, labels)
        if len(inputs) == 0:
            return self
        if self._optimiser is None:
            self._optimiser = torch.optim.Adam(self.module.parameters(), lr=self.settings.rate)
        self.seen += len(inputs)
        noisy = None if transition is None else torch.from_numpy(transition).float()
        self._step(self._optimiser, inputs, targets, noisy, self.seen)
        return self

    def probabilities(self, vectors: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the probability of each class, one row for each vector."""
        with torch.inference_mode():
            result = torch.softmax(self.module(self._inputs(vectors)).double(), dim=1)
        return np.asarray(result.numpy())

    def predict(self, vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the most probable class of each vector."""
        return np.asarray(self.probabilities(vectors).argmax(axis=1))

    def accuracy(self, vectors: npt.ArrayLike, labels: npt.ArrayLike) -> float:
        """Return the share of vectors whose class is found."""
        return float((self.predict(vectors) == checked_labels(labels, self.settings.classes)).mean())

    def save(self, path: str | Path) -> None:
        """Write weights and settings to a safetensors file."""
        weights = {name: tensor.detach().clone().contiguous() for name, tensor in self.module.state_dict().items()}
        described = {"format": _FORMAT, "settings": json.dumps(asdict(self.settings)), "seen": str(self.seen)}
        partial = Path(f"{path}.part")
        extras.safetensors().save_file(weights, str(partial), metadata=described)
        partial.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Head:
        """Read a head that :meth:`save` wrote."""
        safetensors = extras.safetensors()
        try:
            from safetensors import safe_open

            with safe_open(str(path), framework="pt") as file:
                described: dict[str, Any] = file.metadata() or {}
            weights = safetensors.load_file(str(path))
        except Exception as error:
            raise DataError(f"the head cannot be read ({type(error).__name__}); train and save it again") from None
        if described.get("format") != _FORMAT:
            raise DataError("this file is not a head saved by this program")
        try:
            settings, seen = HeadSettings(**json.loads(described["settings"])), int(described["seen"])
        except (TypeError, KeyError, ValueError):
            raise DataError("the settings in the head's file cannot be read; train and save it again") from None
        # Before anything of that size is made: the file may come from a server.
        if {name: tuple(tensor.shape) for name, tensor in weights.items()} != settings.shapes:
            raise DataError(
                "the weights in the head's file are not of the shape that it states; train and save it again"
            )
        head = cls(settings)
        head.module.load_state_dict(weights)
        head.seen = seen
        return head

    def _inputs(self, vectors: npt.ArrayLike) -> torch.Tensor:
        array = np.asarray(vectors)
        if array.dtype != np.float32:
            array = array.astype(np.float64)
        if array.ndim != 2 or array.shape[1] != self.settings.dimension:
            raise DataError(f"vectors must have {self.settings.dimension} numbers each, got shape {array.shape}")
        require_finite(array)
        array = array / array.dtype.type(self.settings.scale)
        return torch.from_numpy(pair_features(array) if self.settings.pairs else array).float()

    def _data(self, vectors: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = self._inputs(vectors)
        targets = torch.from_numpy(checked_labels(labels, self.settings.classes))
        if len(inputs) != len(targets):
            raise DataError(f"there are {len(inputs)} vectors and {len(targets)} labels")
        return inputs, targets

    def _loss(
        self, inputs: torch.Tensor, targets: torch.Tensor, transition: torch.Tensor | None, count: int
    ) -> torch.Tensor:
        logits = self.module(inputs)
        if transition is None:
            loss = torch.nn.functional.cross_entropy(logits, targets)
        else:
            sent = torch.softmax(logits, dim=1) @ transition
            loss = torch.nn.functional.nll_loss(torch.log(sent.clamp(min=1e-12)), targets)
        decay = self.settings.dimension / max(count, 1) if self.settings.decay is None else self.settings.decay
        squares = [(weight**2).sum() for weight in self.module.parameters() if weight.ndim > 1]
        return loss + 0.5 * decay * torch.stack(squares).sum()

    def _step(
        self,
        optimiser: torch.optim.Optimizer,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        transition: torch.Tensor | None,
        count: int,
    ) -> None:
        optimiser.zero_grad()
        loss = self._loss(inputs, targets, transition, count)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def _converge(self, inputs: torch.Tensor, targets: torch.Tensor, transition: torch.Tensor | None) -> None:
        optimiser = torch.optim.LBFGS(
            self.module.parameters(), max_iter=100, tolerance_grad=1e-6, line_search_fn="strong_wolfe"
        )

        def closure() -> float:
            optimiser.zero_grad()
            loss = self._loss(inputs, targets, transition, len(inputs))
            loss.backward()  # type: ignore[no-untyped-call]
            return float(loss.detach())

        optimiser.step(closure)  # type: ignore[no-untyped-call]
