"""An encoder followed by a public linear map: fewer dimensions, of which each carries more.

Gaussian noise has the same size in every direction, so its length grows with the square root of the dimension, while the
part of a vector that tells the classes apart stays as it is.  A map that was learnt on PUBLIC labelled sentences and keeps
only the telling directions is the largest gain there is at a given promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_count, require_non_negative
from sfumato.foundation.errors import DataError
from sfumato.latent.encoders.base import Encoder, Float32Array, TokenVectors


class Projection:
    """A public affine map, ``(vector - centre) @ matrix``.

    >>> vectors = np.array([[0.0, 0.0], [0.2, 5.0], [1.0, 0.1], [1.2, 5.1]])
    >>> mapped = Projection.discriminating(vectors, [0, 0, 1, 1], classes=2, ridge=0.01).apply(vectors)
    >>> bool(mapped[:2].mean() * mapped[2:].mean() < 0 and np.ptp(mapped[:2]) < 0.1)
    True
    """

    def __init__(self, centre: npt.ArrayLike, matrix: npt.ArrayLike) -> None:
        self.centre = np.asarray(centre, dtype=np.float64)
        self.matrix = np.asarray(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or self.centre.shape != self.matrix.shape[:1]:
            raise DataError("a projection has a centre of n numbers and a matrix of n rows")

    @classmethod
    def principal(cls, public_vectors: npt.ArrayLike, dimension: int) -> Projection:
        """Return the map onto the directions in which public vectors vary most."""
        require_count(dimension=dimension)
        array = np.asarray(public_vectors, dtype=np.float64)
        centre = array.mean(axis=0)
        _, axes = np.linalg.eigh(np.cov(array - centre, rowvar=False))
        return cls(centre, axes[:, ::-1][:, :dimension])

    @classmethod
    def discriminating(
        cls, public_vectors: npt.ArrayLike, public_labels: npt.ArrayLike, *, classes: int, ridge: float = 0.1
    ) -> Projection:
        """Return the map onto the classes - 1 directions that tell the classes of public sentences apart (Fisher 1936).

        ``ridge`` is added to the covariance within the classes, in units of its mean variance.
        """
        require_count(classes=classes)
        require_non_negative(ridge=ridge)
        array, labels = np.asarray(public_vectors, dtype=np.float64), np.asarray(public_labels)
        if set(np.unique(labels).tolist()) != set(range(classes)):
            raise DataError(f"public sentences of each of the {classes} classes are needed")
        centre = array.mean(axis=0)
        means = np.stack([array[labels == one].mean(axis=0) for one in range(classes)])
        inside = array - means[labels]
        within = inside.T @ inside / len(array)
        within[np.diag_indices_from(within)] += ridge * np.trace(within) / len(within)
        directions = np.linalg.solve(within, (means - centre).T)
        basis, _, _ = np.linalg.svd(directions, full_matrices=False)
        matrix = basis[:, : classes - 1]
        spread = np.sqrt((((array - centre) @ matrix) ** 2).sum(axis=1).mean())
        return cls(centre, matrix / spread)

    @property
    def dimension(self) -> int:
        """How many numbers come out."""
        return int(self.matrix.shape[1])

    def apply(self, vectors: npt.ArrayLike) -> Float32Array:
        """Return the mapped vectors, along the last axis."""
        return np.asarray((np.asarray(vectors, dtype=np.float64) - self.centre) @ self.matrix, dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"centre": self.centre.tolist(), "matrix": self.matrix.tolist()}


class ProjectedEncoder:
    """An encoder whose vectors go through a public projection."""

    def __init__(self, encoder: Encoder, projection: Projection) -> None:
        if len(projection.centre) != encoder.dimension:
            raise DataError(
                f"the projection takes {len(projection.centre)} numbers, the encoder gives {encoder.dimension}"
            )
        self.encoder = encoder
        self.projection = projection
        self.name = f"{encoder.name}, {projection.dimension} public directions"
        self.dimension = projection.dimension
        self.contextual = encoder.contextual
        self.max_tokens = encoder.max_tokens

    def encode(self, sentences: Sequence[str]) -> Float32Array:
        """Return one mapped vector for each sentence."""
        return self.projection.apply(self.encoder.encode(sentences))

    def encode_tokens(self, sentences: Sequence[str]) -> TokenVectors:
        """Return the mapped vectors of the tokens of each sentence."""
        tokens = self.encoder.encode_tokens(sentences)
        mapped = self.projection.apply(tokens.values) * tokens.mask[:, :, None]
        return TokenVectors(np.asarray(mapped, dtype=np.float32), tokens.mask)
