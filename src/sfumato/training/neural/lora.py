"""Low-rank adapters (Hu et al. 2022): a large model stays as it is, and small matrices beside its layers are trained.

Noise grows with the number of trained parameters, so that this is more than a saving of memory.

>>> model = nn.Sequential(nn.Linear(8, 8))
>>> add_adapters(model, names=("0",), rank=2), [p.shape for p in model.parameters() if p.requires_grad]
(1, [torch.Size([2, 8]), torch.Size([8, 2])])
"""

from __future__ import annotations

import math
from collections.abc import Collection

import torch
from torch import Tensor, nn

from sfumato.foundation.checks import gather, require_count, require_positive
from sfumato.foundation.errors import ParameterError


class Adapted(nn.Module):
    """A frozen layer, and a map of low rank beside it that starts at zero."""

    def __init__(self, layer: nn.Module, inputs: int, outputs: int, rank: int, scale: float) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        self.scale = scale
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def extra_repr(self) -> str:
        """Return the weight of the adapter."""
        return f"scale={self.scale:g}"

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply both."""
        return self.layer(inputs) + self.scale * self.up(self.down(inputs))  # type: ignore[no-any-return]


def add_adapters(
    model: nn.Module,
    *,
    names: Collection[str] = ("q_proj", "v_proj", "c_attn", "query", "value"),
    rank: int = 4,
    alpha: float = 8.0,
    seed: int = 0,
) -> int:
    """Freeze the model and put adapters beside the layers with these names; return how many.

    The default names are those of the attention of Llama, SmolLM2, GPT-2 and BERT.
    """
    gather(lambda: require_count(rank=rank), lambda: require_positive(alpha=alpha))
    found = [
        (parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if name in names and _sizes(layer) is not None
    ]
    if not found:
        raise ParameterError("no layer has one of the names; give the last part of the names of linear layers")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for parent, name, layer in found:
            inputs, outputs = _sizes(layer) or (0, 0)
            setattr(parent, name, Adapted(layer, inputs, outputs, rank, alpha / rank))
    return len(found)


def _sizes(layer: nn.Module) -> tuple[int, int] | None:
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    if type(layer).__name__ == "Conv1D":
        weight = layer.weight
        assert isinstance(weight, Tensor)
        return int(weight.shape[0]), int(weight.shape[1])
    return None
