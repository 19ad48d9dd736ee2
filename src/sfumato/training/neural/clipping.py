"""The sum of per-sentence gradients, each clipped to a norm.

Two ways to the same sum.  ``recorded`` runs all sentences at once: the inputs of every layer and the gradients of its
outputs give the norm of each sentence's gradient without writing it out (ghost clipping: Goodfellow 2015; Li et al.
2022), and then the weighted sum as one product (Bu et al. 2023).  ``single`` takes the gradient of one sentence after
the other and knows every model.  ``auto`` records where all trained parameters belong to layers that it knows.

A norm that came out too small would break the promise, so norms are raised by what rounding may have taken away.
``tests/unit/training/test_clipping.py`` compares the two ways, ``test_sensitivity.py`` measures what the sum promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.training.neural.batch import Batch, TextModel

ENGINES = ("auto", "recorded", "single")
_ROUNDING = 4e-6
"""Relative to a norm in which nothing cancels: some tens of roundings in single precision."""
_GREATEST = 2**26
"""Numbers that may be written out at once for per-sentence gradients."""
_TRIAL = 1e-6
"""Clipping norm of the trial of a model's layers."""


def trained(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are trained, each once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def clipped_sum(model: TextModel, batch: Batch, clip: float, *, engine: str = "auto", chunk: int = 128) -> list[Tensor]:
    """Return the sum over the sentences of their gradients, each scaled down to norm ``clip`` where it is longer.

    With ``clip`` infinite nothing is scaled.  A gradient that is not finite counts as zero, and so does a sentence
    without words: that is what an emptied slot adds, also where a classifier has learned something from its label.
    """
    require_one_of(ENGINES, engine=engine)
    parameters = trained(model)
    if not parameters:
        raise ParameterError("the model has no parameter to train")
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        raise ParameterError("batch normalisation mixes sentences, so that no gradient belongs to one; use layer norms")
    recorded = _is_recorded(model, engine)
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for piece in batch.chunks(chunk if recorded else 1):
        if recorded:
            for sum_, part in zip(total, _recorded(model, piece, clip, parameters), strict=True):
                sum_ += part
        else:
            _add_single(model, piece, clip, parameters, total)
    return total


def _is_recorded(model: nn.Module, engine: str) -> bool:
    unknown = _unknown(model)
    if engine == "recorded" and unknown:
        raise ParameterError(f"layers of these kinds cannot be recorded: {', '.join(unknown)}; use engine='single'")
    return engine == "recorded" or (engine == "auto" and not unknown)


def require_true_record(model: TextModel, batch: Batch, engine: str) -> None:
    """Raise where recording takes the gradient of one sentence for that of another.

    A layer whose first dimension is not that of the sentences is noticed by its size, unless there are as many sentences
    as places.  So three made-up sentences of three words each are tried; nothing of ``batch`` but its form is used.
    """
    if not _is_recorded(model, engine):
        return
    labels = None if batch.labels is None else torch.zeros(3, dtype=torch.int64)
    rows = Batch(torch.tensor([[1, 2, 3], [1, 1, 2], [3, 3, 3]]), labels, batch.pad)
    was_training = model.training
    model.eval()
    # So small a norm makes all three equally long, and the sum depends on which gradient is whose.
    ways = [clipped_sum(model, rows, _TRIAL, engine=way) for way in ("recorded", "single")]
    model.train(was_training)
    apart = math.sqrt(sum(float((a - b).double().pow(2).sum()) for a, b in zip(*ways, strict=True)))
    if apart > 0.1 * _TRIAL:
        raise ParameterError("a layer does not keep the sentences apart in its first dimension; use engine='single'")


def _scales(norms: Tensor, clip: float, words: Tensor) -> Tensor:
    """Return what to multiply each gradient with; 0 for one that is not finite, and for an emptied slot.

    An emptied slot goes through the model like any other, so that dropout draws the same for all others.
    """
    scales = torch.ones_like(norms) if math.isinf(clip) else (clip / norms.clamp(min=1e-30)).clamp(max=1.0)
    return torch.where(torch.isfinite(norms) & words, scales, torch.zeros_like(scales))


def _add_single(
    model: TextModel, piece: Batch, clip: float, parameters: list[nn.Parameter], total: list[Tensor]
) -> None:
    gradients = torch.autograd.grad(model.losses(piece).sum(), parameters, allow_unused=True)
    norm = torch.sqrt(sum((g.double().pow(2).sum() for g in gradients if g is not None), torch.zeros(()).double()))
    scale = float(_scales(norm * (1 + _ROUNDING), clip, piece.mask.any()))
    for sum_, gradient in zip(total, gradients, strict=True):
        if gradient is not None and scale > 0:
            sum_.add_(gradient, alpha=scale)


@dataclass
class _Record:
    """One use of a layer: what went in, and the gradient of what came out."""

    module: nn.Module
    inputs: Tensor
    outputs: Tensor


def _kind(module: nn.Module) -> str | None:
    if type(module).__name__ == "Conv1D":
        return "transposed"
    for kind, name in ((nn.Linear, "linear"), (nn.Embedding, "embedding"), (nn.LayerNorm, "norm")):
        if isinstance(module, kind):
            return name
    return None


def _unknown(model: nn.Module) -> list[str]:
    """Return the kinds of layer that own a trained parameter and cannot be recorded."""
    return sorted(
        {
            type(module).__name__
            for module in model.modules()
            if _kind(module) is None and any(p.requires_grad for p in module.parameters(recurse=False))
        }
    )


def _recorded(model: TextModel, piece: Batch, clip: float, parameters: list[nn.Parameter]) -> list[Tensor]:
    records: list[_Record] = []

    def note(module: nn.Module, inputs: Any, output: Tensor) -> None:
        records.append(_Record(module, inputs[0].detach(), output))

    watched = [m for m in model.modules() if _kind(m) and any(p.requires_grad for p in m.parameters(recurse=False))]
    handles = [module.register_forward_hook(note) for module in watched]
    try:
        losses = model.losses(piece)
    finally:
        for handle in handles:
            handle.remove()
    gradients = torch.autograd.grad(losses.sum(), [one.outputs for one in records], allow_unused=True)
    uses = _uses(records, gradients, len(piece), {id(parameter) for parameter in parameters})
    found = [_Found.of(uses.get(id(parameter), []), parameter) for parameter in parameters]
    squares = sum((one.squares(len(piece)) for one in found), torch.zeros(len(piece)))
    scales = _scales(torch.sqrt(squares.clamp(min=0.0)) * (1 + _ROUNDING), clip, piece.mask.any(dim=1))
    # What is not finite must not reach the product: 0 times infinity is no zero.
    return [one.weighted(scales) for one in found]


@dataclass
class _Use:
    """How a parameter entered: ``left`` and ``right`` give the gradient as a sum over places of products."""

    form: str
    left: Tensor
    """Gradients of the outputs: sentences, places, outputs."""
    right: Tensor
    """Inputs, or the numbers of the rows that were looked up."""
    mask: Tensor | None = None


def _uses(
    records: list[_Record], gradients: tuple[Tensor | None, ...], sentences: int, wanted: set[int]
) -> dict[int, list[_Use]]:
    """Return the uses of each parameter; those of one layer are put behind one another."""
    grouped: dict[int, list[tuple[nn.Module, Tensor, Tensor]]] = {}
    for one, gradient in zip(records, gradients, strict=True):
        if gradient is None:
            continue
        if one.outputs.shape[0] != sentences:
            raise ParameterError(
                "a layer was run for all sentences at once; it cannot be recorded, use engine='single'"
            )
        # A weight in a sentence of n places enters n times, a weight after pooling once.
        left = gradient.reshape(sentences, -1, gradient.shape[-1])
        inputs = one.inputs
        right = inputs.reshape(sentences, -1) if _kind(one.module) == "embedding" else inputs
        if right.dim() != 2 or _kind(one.module) != "embedding":
            right = right.reshape(sentences, -1, right.shape[-1])
        grouped.setdefault(id(one.module), []).append((one.module, left, right))
    uses: dict[int, list[_Use]] = {}
    for calls in grouped.values():
        module = calls[0][0]
        left, right = torch.cat([c[1] for c in calls], dim=1), torch.cat([c[2] for c in calls], dim=1)
        for parameter, use in _of_module(module, left, right):
            if id(parameter) in wanted:
                uses.setdefault(id(parameter), []).append(use)
    return uses


def _of_module(module: nn.Module, left: Tensor, right: Tensor) -> list[tuple[Any, _Use]]:
    kind = _kind(module)
    if kind == "embedding":
        padding = getattr(module, "padding_idx", None)
        if padding is not None:
            left = left * (right != padding).unsqueeze(2)
        return [(module.weight, _Use("rows", left, right))]
    if kind == "norm":
        assert isinstance(module, nn.LayerNorm)
        normal = nn.functional.layer_norm(right, module.normalized_shape, None, None, module.eps)
        return [(module.weight, _Use("plain", left * normal, right)), (module.bias, _Use("plain", left, right))]
    form = "product" if kind == "linear" else "transposed"
    mask = getattr(module, "weight_mask", None)
    return [(module.weight, _Use(form, left, right, mask)), (module.bias, _Use("plain", left, right))]


@dataclass
class _Found:
    """The per-sentence gradients of one parameter, not written out."""

    uses: list[_Use]
    shape: torch.Size

    @classmethod
    def of(cls, uses: list[_Use], parameter: nn.Parameter) -> _Found:
        return cls(uses, parameter.shape)

    def squares(self, sentences: int) -> Tensor:
        """Return the squared norm for each sentence, raised by what rounding may hide."""
        total = torch.zeros(sentences)
        for place, use in enumerate(self.uses):
            total = total + _SQUARES[use.form](use)
            for other in self.uses[place + 1 :]:
                total = total + 2 * _cross(use, other)
        return total

    def weighted(self, scales: Tensor) -> Tensor:
        """Return the sum over sentences, each times its scale."""
        total = torch.zeros(self.shape)
        for use in self.uses:
            left = torch.where(scales[:, None, None] > 0, use.left * scales[:, None, None], torch.zeros(()))
            right = use.right
            if right.is_floating_point():
                right = torch.where(scales[:, None, None] > 0, right, torch.zeros(()))
            if use.form == "rows":
                total.index_add_(0, right.reshape(-1), left.reshape(-1, left.shape[-1]))
            elif use.form == "plain":
                total += left.sum(dim=(0, 1)).view(self.shape)
            else:
                product = left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])
                product = product if use.mask is None else product * use.mask
                total += product if use.form == "product" else product.T
        return total


def _plain_squares(use: _Use) -> Tensor:
    return use.left.sum(dim=1).pow(2).sum(dim=1) + _slack(use.left.norm(dim=2).sum(dim=1))


def _row_squares(use: _Use) -> Tensor:
    same = use.right.unsqueeze(1) == use.right.unsqueeze(2)
    together = (use.left @ use.left.transpose(1, 2)) * same
    return together.sum(dim=(1, 2)) + _slack(use.left.norm(dim=2).sum(dim=1))


def _product_squares(use: _Use) -> Tensor:
    sentences, places, outputs = use.left.shape
    inputs = use.right.shape[2]
    slack = _slack((use.left.norm(dim=2) * use.right.norm(dim=2)).sum(dim=1))
    written_out = sentences * outputs * inputs
    if written_out <= _GREATEST and (use.mask is not None or places * places > outputs * inputs):
        whole = use.left.transpose(1, 2) @ use.right
        return (whole if use.mask is None else whole * use.mask).pow(2).sum(dim=(1, 2)) + slack
    inner = ((use.left @ use.left.transpose(1, 2)) * (use.right @ use.right.transpose(1, 2))).sum(dim=(1, 2))
    # Dropped weights make the gradient shorter, up to the factor by which the others were raised.
    return (inner + slack) * (1.0 if use.mask is None else float(use.mask.max()) ** 2)


def _slack(uncancelled: Tensor) -> Tensor:
    return _ROUNDING * uncancelled**2


def _cross(one: _Use, other: _Use) -> Tensor:
    """Return the inner product of two gradients of the same (tied) parameter, for each sentence."""
    rows, products = (one, other) if one.form == "rows" else (other, one)
    if (rows.form, products.form) == ("rows", "rows"):
        same = rows.right.unsqueeze(2) == products.right.unsqueeze(1)
        return ((rows.left @ products.left.transpose(1, 2)) * same).sum(dim=(1, 2))
    if (rows.form, products.form) == ("product", "product"):
        lefts = rows.left @ products.left.transpose(1, 2)
        return (lefts * (rows.right @ products.right.transpose(1, 2))).sum(dim=(1, 2))
    if (rows.form, products.form) != ("rows", "product"):
        raise ParameterError("these tied layers cannot be recorded; use engine='single'")
    # Row r of the product's gradient is the sum over places s of left[s, r] right[s].
    places = products.left.shape[1]
    chosen = torch.gather(products.left, 2, rows.right.unsqueeze(1).expand(-1, places, -1))
    return (chosen * (products.right @ rows.left.transpose(1, 2))).sum(dim=(1, 2))


_SQUARES: dict[str, Callable[[_Use], Tensor]] = {
    "plain": _plain_squares,
    "rows": _row_squares,
    "product": _product_squares,
    "transposed": _product_squares,
}
