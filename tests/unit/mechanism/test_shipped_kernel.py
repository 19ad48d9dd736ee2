"""The figures and the tuned kernel in the package are those of the default space and the command line's default loss.

``sfumato verify`` recomputes the certificate over all pairs, which takes half a minute; here the worst pair and sampled
ones are compared in exact fractions.
"""

from importlib import resources
from itertools import permutations

import numpy as np
import pytest

import sfumato
from sfumato.accounting.neighbour_loss import DEFAULT_NEIGHBOUR_LOSS
from sfumato.audit.extremes import aligned, exact_loss
from sfumato.mechanism import exponential
from sfumato.space import statistics

SAMPLED = 60


@pytest.fixture(scope="module")
def mechanism(tmp_path_factory):
    """The default mechanism on a machine that has computed nothing yet; to tune or to look at all pairs would fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_CACHE_DIR", str(tmp_path_factory.mktemp("empty")))
        patch.setattr(exponential, "tune", None)
        patch.setattr(statistics, "compute_statistics", None)
        patch.setattr("sfumato.space.space.compute_statistics", None)
        return sfumato.compile("tem", sfumato.Space.load(), epsilon=DEFAULT_NEIGHBOUR_LOSS)


def test_nothing_else_ships(mechanism):
    folders = [resources.files(name) / "data" for name in ("sfumato.space", "sfumato.mechanism")]
    digests = [file.name for folder in folders for file in folder.iterdir() if file.name.endswith((".json", "z"))]
    assert len(digests) == 3  # words and vectors, their figures, and one kernel
    assert f"statistics-{mechanism.space.digest}.json" in digests


def test_what_ships_certifies_and_its_worst_pair_reaches_the_certificate(mechanism):
    certificate = mechanism.certificate
    assert certificate.epsilon == mechanism.guarantee.certified <= DEFAULT_NEIGHBOUR_LOSS
    sampled = np.random.default_rng(0).choice(len(mechanism.space), SAMPLED, replace=False)
    ids = np.unique(np.concatenate([[certificate.first, certificate.second], sampled]))
    rows, distances = aligned(mechanism, ids), mechanism.space.distances(ids, ids)
    realised = {
        (int(ids[one]), int(ids[other])): exact_loss(rows, one, other)[0] / distances[one, other]
        for one, other in permutations(range(len(ids)), 2)
    }
    worst = max(realised, key=realised.get)
    assert set(worst) == {certificate.first, certificate.second}
    # The kernel that ships has a fill, so its worst pair stays a little below the bound.
    assert mechanism.tuned.fill is not None
    assert certificate.epsilon - 1e-3 < realised[worst] <= certificate.epsilon
