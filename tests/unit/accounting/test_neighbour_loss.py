from __future__ import annotations

import math

import pytest

from sfumato.accounting.neighbour_loss import epsilon_for_neighbour_loss
from sfumato.foundation.errors import ParameterError
from sfumato.mechanism.exponential import tem
from sfumato.space import Space


@pytest.mark.parametrize("loss", [0.0, -1.0, math.nan, math.inf])
def test_a_loss_outside_its_domain_is_refused(loss: float) -> None:
    with pytest.raises(ParameterError, match="neighbour_loss"):
        epsilon_for_neighbour_loss(loss, 1.0)


@pytest.mark.parametrize("distance", [0.0, math.nan])
def test_a_space_without_neighbours_is_refused(distance: float) -> None:
    with pytest.raises(ParameterError, match="neighbour distance"):
        epsilon_for_neighbour_loss(1.0, distance)


def test_the_guarantee_reports_the_loss_that_was_asked_for() -> None:
    space = Space.from_arrays("abcde", [[0.0], [2.0], [4.0], [6.0], [8.0]])
    epsilon = epsilon_for_neighbour_loss(5.0, space.statistics.median_neighbour_distance)
    assert epsilon == 2.5
    loss = tem(space, epsilon=epsilon).guarantee.neighbour_loss
    assert loss is not None
    assert 4.9 < loss <= 5.0
