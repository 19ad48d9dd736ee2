"""Choosing epsilon by what it means: the privacy loss between a word and its typical nearest neighbour.

An epsilon per unit of distance says nothing before one knows how far apart words are; the neighbour loss does, and is
comparable between spaces.
"""

from __future__ import annotations

from sfumato.foundation.checks import require_positive
from sfumato.foundation.errors import ParameterError

DEFAULT_NEIGHBOUR_LOSS = 6.0
"""Used where neither epsilon nor a neighbour loss is given; docs/decisions/003 says why."""


def epsilon_for_neighbour_loss(neighbour_loss: float, median_neighbour_distance: float) -> float:
    """Return the epsilon at which the typical nearest neighbour costs ``neighbour_loss``.

    >>> epsilon_for_neighbour_loss(8.0, median_neighbour_distance=0.5)
    16.0
    """
    require_positive(neighbour_loss=neighbour_loss)
    if not median_neighbour_distance > 0:
        raise ParameterError("this space has no neighbour distance (a single point); give epsilon instead")
    return neighbour_loss / median_neighbour_distance
