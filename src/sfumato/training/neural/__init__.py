"""Models and their private training; needs the extra ``training``."""

from sfumato.training.extras import torch as _torch

_torch()
