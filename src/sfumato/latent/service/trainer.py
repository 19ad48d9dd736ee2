"""The server's work without the web: keep vectors, train a head on them, answer queries."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError, SfumatoError
from sfumato.latent.heads import Head
from sfumato.latent.labels import checked_labels
from sfumato.latent.service.checks import checked_vectors
from sfumato.latent.service.store import Batch, VectorStore
from sfumato.latent.service.terms import Terms
from sfumato.latent.tasks import settings_for

TERMS, VECTORS, HEAD, ENCODER = "terms.json", "vectors", "head.safetensors", "encoder"


class NotTrainedError(SfumatoError):
    """There is no head yet."""


@dataclass(frozen=True)
class Status:
    """What has arrived and what became of it; counts only."""

    vectors: int
    trained_on: int
    """0 where there is no head yet."""


class Trainer:
    """The state of one task in one folder.

    >>> import tempfile
    >>> from sfumato.latent.plan import NoisePlan
    >>> folder = tempfile.TemporaryDirectory()
    >>> terms = Terms(plan=NoisePlan(clip=1.0, scale=0.5, dimension=1), classes=("bad", "good"))
    >>> Trainer.prepare(Path(folder.name), terms)
    >>> trainer = Trainer(Path(folder.name))
    >>> trainer.accept(1, [[-1.0], [1.0], [-0.9], [1.1]], [0, 1, 0, 1])
    True
    >>> trainer.train(), trainer.answer([[2.0]])[0][1] > 0.5
    (4, np.True_)
    >>> trainer.close(); folder.cleanup()
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.terms = read_terms(folder)
        self._store = VectorStore(folder / VECTORS, self.terms.plan.dimension)
        self._training = threading.Lock()
        response = self.terms.response
        self._transition = None if response is None else response.transition()
        self._head: Head | None = None
        if self.terms.learning == "online":
            self._learn_again()
        elif (folder / HEAD).exists():
            self._head = Head.load(folder / HEAD)

    @staticmethod
    def prepare(folder: Path, terms: Terms) -> None:
        """Make the folder of a new task."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / TERMS
        if path.exists():
            raise DataError("this folder holds a task already; name another, or leave the terms out to go on with it")
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(terms.to_json(), indent=1) + "\n", encoding="utf-8")
        partial.replace(path)

    def accept(self, number: int, rows: list[list[float]], labels: list[int]) -> bool:
        """Keep a labelled batch; True once it is on the disk, False where it was there already."""
        vectors = checked_vectors(rows, self.terms.plan)
        given = checked_labels(np.asarray(labels, dtype=np.int64), len(self.terms.classes))
        if len(given) != len(vectors):
            raise DataError(f"there are {len(vectors)} vectors and {len(given)} labels; every vector needs one")
        new = self._store.append(Batch(number, vectors, given.astype(np.int32)))
        if new and self.terms.learning == "online":
            with self._training:
                self._step(vectors, given)
        return new

    def train(self) -> int:
        """Train a head on everything that is there, keep it, and return how many vectors that were."""
        with self._training:
            if self.terms.learning == "online":
                head = self._trained()
            else:
                vectors, labels = self._store.arrays()
                if len(vectors) == 0:
                    raise NotTrainedError("no vectors have arrived yet; send some first")
                head = self._fresh().fit(vectors, labels, self._transition)
            head.save(self.folder / HEAD)
            self._head = head
            return head.seen

    def answer(self, rows: list[list[float]]) -> npt.NDArray[np.float64]:
        """Return the probabilities of the classes for noisy queries, which are not kept."""
        vectors = checked_vectors(rows, self.terms.plan)
        return self._trained().probabilities(vectors)

    def head_file(self) -> bytes:
        """Return the head as a safetensors file, for owners who ask it at home, without noise and at no cost."""
        with self._training:
            if self.terms.learning == "online":
                self._trained().save(self.folder / HEAD)
            with contextlib.suppress(FileNotFoundError):
                return (self.folder / HEAD).read_bytes()
        raise NotTrainedError("there is no head yet; ask for training first")

    @property
    def status(self) -> Status:
        """How much there is."""
        return Status(self._store.count, 0 if self._head is None else self._head.seen)

    @property
    def cut_off(self) -> int:
        """Bytes that a crash had left unfinished when the folder was opened."""
        return self._store.cut_off

    def close(self) -> None:
        """Give the folder back."""
        self._store.close()

    def _trained(self) -> Head:
        if self._head is None:
            raise NotTrainedError("there is no head yet; send labelled vectors and ask for training")
        return self._head

    def _fresh(self) -> Head:
        terms = self.terms
        options: dict[str, Any] = {"pairs": terms.pairs, "kind": terms.head}
        return Head(settings_for(terms.plan, classes=len(terms.classes), **options))

    def _step(self, vectors: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> None:
        self._head = (self._head or self._fresh()).partial_fit(vectors, labels, self._transition)

    def _learn_again(self) -> None:
        """Repeat the steps of an online head, so that what was accepted before a crash is learnt."""
        for batch in self._store.batches():
            self._step(batch.vectors, batch.labels.astype(np.int64))


def read_terms(folder: Path) -> Terms:
    """Return the terms of a folder."""
    try:
        return Terms.from_json(json.loads((folder / TERMS).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError("this folder holds no task yet; give the terms of a new one") from None
    except ValueError as error:
        if isinstance(error, SfumatoError):
            raise
        raise DataError(f"{TERMS} cannot be read; restore it from a copy") from None
