"""The layer adds its noise always, and says what kind it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from sfumato.foundation.errors import ParameterError  # noqa: E402
from sfumato.foundation.randomness import RunKey  # noqa: E402
from sfumato.latent.calibration import single_release  # noqa: E402
from sfumato.latent.layer import GaussianLayer  # noqa: E402
from sfumato.latent.plan import NoisePlan  # noqa: E402
from sfumato.latent.release import release, release_records  # noqa: E402
from sfumato.latent.vectors import clip  # noqa: E402

SHAPE = {"clip": 1.0, "dimension": 6, "delta": 1e-5}
LAWS = ["gaussian", "laplace", "discrete"]


def layer(distribution: str = "gaussian", **options: object) -> GaussianLayer:
    return GaussianLayer.calibrated(epsilon=2.0, distribution=distribution, **SHAPE, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("distribution", LAWS)
@pytest.mark.parametrize("training", [True, False])
def test_noise_is_added_in_training_and_at_inference_alike(distribution: str, training: bool) -> None:
    one = layer(distribution).train(training)
    with torch.inference_mode():
        first, second = one(torch.zeros(400, 6)), one(torch.zeros(400, 6))
    assert not torch.equal(first, second)
    # Sum of squares against its deviation: six of them, for noise with at most six as fourth standardised moment.
    squares = torch.cat([first, second]).double().square() / one.plan.deviation**2
    assert abs(float(squares.mean()) - 1) < 6 * (5 / squares.numel()) ** 0.5


@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
def test_a_generator_draws_the_same_law(distribution: str) -> None:
    one = layer(distribution, source=torch.Generator().manual_seed(4))
    drawn = one(torch.zeros(3000, 6, dtype=torch.float64)).numpy().ravel() / one.plan.scale
    assert stats.kstest(drawn, "norm" if distribution == "gaussian" else "laplace").pvalue > 1e-6


def test_a_predictable_source_is_told_in_the_guarantee() -> None:
    assert layer().guarantee.secure
    assert layer(source=RunKey.generate().record(0)).guarantee.secure
    assert not layer(source=RunKey.from_seed(1).record(0)).guarantee.secure
    quick = layer(source=torch.Generator().manual_seed(1))
    assert not quick.guarantee.secure
    assert "NOT SECURE" in quick.guarantee.statement()
    with pytest.raises(ParameterError, match="integers"):
        layer("discrete", source=torch.Generator())


@pytest.mark.parametrize("norm_of", ["gaussian", "laplace"])
def test_the_layer_clips_like_the_release(norm_of: str) -> None:
    vectors = np.random.default_rng(2).normal(size=(50, 6)) * np.geomspace(1e-3, 1e6, 50)[:, None]
    one = layer(norm_of)
    clipped = one.clip(torch.from_numpy(vectors)).numpy()
    assert clipped == pytest.approx(clip(vectors, 1.0, one.plan.norm), rel=1e-12)


@pytest.mark.parametrize("distribution", LAWS)
def test_layer_and_release_are_the_same_function_of_the_source(distribution: str) -> None:
    plan = single_release(epsilon=2.0, distribution=distribution, **SHAPE)
    vectors = np.random.default_rng(3).normal(size=(5, 6))
    from_layer = GaussianLayer(plan, RunKey.from_seed(7).record(0))(torch.from_numpy(vectors)).numpy()
    assert from_layer == pytest.approx(release(vectors, plan, RunKey.from_seed(7).record(0)), rel=1e-9)


def test_gradients_pass_and_are_finite_even_at_zero() -> None:
    vectors = torch.tensor([[0.0] * 6, [3.0] * 6, [1e-3] * 6], requires_grad=True)
    layer()(vectors).sum().backward()
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()
    assert vectors.grad[2].tolist() == pytest.approx([1.0] * 6)
    # The derivative of x / |x| along x is zero.
    assert float(vectors.grad[1] @ vectors.detach()[1]) == pytest.approx(0.0, abs=1e-6)


def test_gradients_pass_the_grid() -> None:
    vectors = torch.full((1, 6), 0.1, requires_grad=True)
    layer("discrete")(vectors).sum().backward()
    assert vectors.grad is not None
    assert vectors.grad[0].tolist() == pytest.approx([1.0] * 6)


def test_nothing_but_the_grid_comes_out_of_the_discrete_layer() -> None:
    """Equal sums of value and noise are equal to the last bit: else the rounding would tell the value."""
    one = layer("discrete")
    values = torch.linspace(-0.4, 0.4, 6, dtype=torch.float64).repeat(300, 1)
    released = one(values).numpy()
    assert (released == np.rint(released / one.plan.grid) * one.plan.grid).all()


def test_tokens_have_noise_of_their_own() -> None:
    one = GaussianLayer(NoisePlan(clip=1.0, scale=1.0, dimension=6, position="token", tokens=3))
    mask = torch.tensor([[True, True, False]])
    released = one(torch.zeros(1, 3, 6), mask)
    assert (released[0, 2] == 0).all()
    assert len(set(released[0, :2].flatten().tolist())) == 12


@pytest.mark.parametrize(
    ("shape", "message"), [((6,), "2 axes"), ((2, 3, 6), "2 axes"), ((2, 5), "2 axes, the last of size 6")]
)
def test_a_wrong_shape_is_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        layer()(torch.zeros(shape))


def test_too_many_tokens_and_numbers_that_are_not_finite_are_refused() -> None:
    one = GaussianLayer(NoisePlan(clip=1.0, scale=1.0, dimension=6, position="token", tokens=3))
    with pytest.raises(ParameterError, match="up to 3 tokens"):
        one(torch.zeros(1, 4, 6))
    with pytest.raises(ParameterError, match="nothing was released"):
        layer()(torch.tensor([[float("nan")] * 6]))


@pytest.mark.parametrize("distribution", LAWS)
def test_a_record_that_is_sent_again_has_the_same_noise(distribution: str) -> None:
    plan = single_release(epsilon=2.0, distribution=distribution, **SHAPE)
    vectors = np.random.default_rng(3).normal(size=(4, 6))
    key = RunKey.generate()
    together = release_records(vectors, plan, key, [3, 4, 5, 6])
    alone = release_records(vectors[2:3], plan, key, [5])
    assert (together[2] == alone[0]).all()
    assert (together != release_records(vectors, plan, RunKey.generate(), [3, 4, 5, 6])).any()
    assert len(np.unique(release_records(np.zeros((4, 6)), plan, key, range(4)))) > 12
