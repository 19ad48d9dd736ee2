"""The Gaussian layer as a PyTorch module: the last layer of the owner's half of a split network.

It clips and adds noise in training and at inference alike: ``eval()`` changes nothing, because a query is a release too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.foundation.errors import MissingExtraError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import Source, SystemSource
from sfumato.latent import noise
from sfumato.latent.calibration import single_release
from sfumato.latent.plan import NoisePlan
from sfumato.latent.release import on_grid, stated
from sfumato.latent.vectors import SHRINK

try:
    import torch
except ImportError as error:
    raise MissingExtraError("torch", "torch") from error


class GaussianLayer(torch.nn.Module):
    """Clip to a norm, add calibrated noise; the guarantee is attached.

    ``source`` is where the noise comes from: the operating system's cryptographic generator (the default), any other
    :class:`~sfumato.foundation.randomness.Source`, or a ``torch.Generator``, which is quicker, predictable, and makes the
    guarantee say so.  The guarantee is that of ``plan.releases`` passes of one sentence; each further pass is one more
    release.  It is a promise about the layer: what comes before it must be public.  An encoder that is trained through it
    on the owner's own sentences carries them into every later release of every other sentence.

    >>> layer = GaussianLayer.calibrated(epsilon=4.0, delta=1e-5, clip=1.0, dimension=2)
    >>> layer.eval()(torch.zeros(3, 2)).shape
    torch.Size([3, 2])
    >>> bool((layer(torch.zeros(1, 2)) == layer(torch.zeros(1, 2))).all())
    False
    >>> layer.guarantee.kind, round(layer.plan.sensitivity, 9)
    ('gaussian', 2.0)
    """

    def __init__(self, plan: NoisePlan, source: Source | torch.Generator | None = None) -> None:
        super().__init__()
        self.plan = plan
        self._source: Source | torch.Generator = SystemSource() if source is None else source
        if isinstance(self._source, torch.Generator) and plan.distribution == "discrete":
            raise ParameterError("the discrete Gaussian draws integers from a source; leave the generator out")

    @classmethod
    def calibrated(cls, *, source: Source | torch.Generator | None = None, **options: Any) -> GaussianLayer:
        """Return the layer with the least noise for one release; options as for ``single_release``."""
        return cls(single_release(**options), source)

    @property
    def guarantee(self) -> Guarantee:
        """The promise, as it holds for this source of noise."""
        secure = not isinstance(self._source, torch.Generator) and self._source.secure
        return stated(self.plan.guarantee, secure)

    def clip(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return vectors scaled down to the clipping norm, in double precision; gradients pass through."""
        wide = vectors.double()
        if not bool(torch.isfinite(wide).all()):
            raise ParameterError(
                "vectors that are not finite cannot be clipped; mend the encoder, nothing was released"
            )
        order = 1 if self.plan.norm == "l1" else 2
        limit = self.plan.clip * SHRINK
        # Scaled by the greatest coordinate first, where that is large, so that nothing overflows or loses its digits.
        greatest = wide.detach().abs().amax(dim=-1, keepdim=True).clamp(min=limit)
        scaled, share = wide / greatest, limit / greatest
        lengths = torch.linalg.vector_norm(scaled, ord=order, dim=-1, keepdim=True)
        return torch.where(lengths > share, scaled * (limit / torch.maximum(lengths, share)), wide)

    def forward(self, vectors: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return clipped and noised vectors, in the precision of the input.

        For position "token" the shape is (sentences, tokens, dimension), and places without a token come out as zeros.
        """
        plan = self.plan
        wanted = 3 if plan.position == "token" else 2
        if vectors.ndim != wanted or vectors.shape[-1] != plan.dimension:
            raise ParameterError(
                f"position {plan.position!r} takes {wanted} axes, the last of size {plan.dimension}; "
                f"got {tuple(vectors.shape)}"
            )
        if wanted == 3 and vectors.shape[1] > plan.tokens:
            raise ParameterError(f"a sentence has up to {plan.tokens} tokens in this plan, got {vectors.shape[1]}")
        clipped = self.clip(vectors)
        released = self._noised(clipped) if clipped.numel() else clipped
        if mask is not None:
            released = released * mask.unsqueeze(-1)
        return released.to(vectors.dtype)

    def _noised(self, clipped: torch.Tensor) -> torch.Tensor:
        plan, source = self.plan, self._source
        shape = tuple(clipped.shape)
        if isinstance(source, torch.Generator):
            if plan.distribution == "gaussian":
                return clipped + torch.randn(shape, generator=source, dtype=torch.float64) * plan.scale
            ends = torch.rand(shape, generator=source, dtype=torch.float64).clamp(min=2.0**-53) * 2 - 1
            return clipped - plan.scale * torch.sign(ends) * torch.log1p(-ends.abs())
        if plan.distribution == "discrete":
            return _OnGrid.apply(clipped, plan, source)  # type: ignore[no-any-return, no-untyped-call]
        drawn = (noise.laplace if plan.distribution == "laplace" else noise.gaussian)(source, shape, plan.scale)
        return clipped + torch.from_numpy(np.ascontiguousarray(drawn))

    def extra_repr(self) -> str:
        """Show the numbers of the plan."""
        plan = self.plan
        return f"{plan.distribution}, position={plan.position}, clip={plan.clip:g}, scale={plan.scale:g}"


class _OnGrid(torch.autograd.Function):
    """The discrete release, whose gradient goes straight through.

    Value and noise are added as whole numbers of steps: were each of them turned into a number first, the last digits of
    their sum would tell which of the two is which.
    """

    @staticmethod
    def forward(ctx: Any, clipped: torch.Tensor, plan: NoisePlan, source: Source) -> torch.Tensor:
        return torch.from_numpy(on_grid(clipped.detach().numpy(), plan, source))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0], None, None
