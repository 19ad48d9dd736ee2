"""Public words, their vectors and the metric between them."""

from sfumato.space.space import Space
from sfumato.space.statistics import SpaceStatistics

__all__ = ["Space", "SpaceStatistics"]
