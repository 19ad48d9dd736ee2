"""A step for scikit-learn pipelines."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError, MissingExtraError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.policy import Policy
from sfumato.sanitize.adapters.building import build_sanitizer
from sfumato.sanitize.consistency import DigitReplacer
from sfumato.sanitize.sanitizer import Sanitizer
from sfumato.space import Space

try:
    from sklearn.base import BaseEstimator, TransformerMixin
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise MissingExtraError("scikit-learn", "sklearn") from error


class SfumatoTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """Sanitizes texts, one for each sample.

    Give a ready ``sanitizer``, or the settings of one.  Nothing is learnt from data, and every call of
    :meth:`transform` draws anew: it is a release of its own.

    >>> space = Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
    >>> transformer = SfumatoTransformer(epsilon=200.0, space=space, oov="mask")
    >>> transformer.fit_transform(["Cold, then HOT!"]).tolist()
    ['Cold, [MASK] HOT!']
    """

    def __init__(
        self,
        sanitizer: Sanitizer | None = None,
        *,
        epsilon: float | None = None,
        mechanism: str = "tem",
        mechanism_options: Mapping[str, Any] | None = None,
        space: Space | None = None,
        policy: Policy | None = None,
        oov: str = "draw",
        carry_case: bool = True,
        consistency: str = "token",
        public_length: int | None = None,
        digits: DigitReplacer | None = None,
    ) -> None:
        self.sanitizer = sanitizer
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.space = space
        self.policy = policy
        self.oov = oov
        self.carry_case = carry_case
        self.consistency = consistency
        self.public_length = public_length
        self.digits = digits

    def fit(self, X: Iterable[str] = (), y: object = None) -> Self:
        """Build the sanitizer; nothing is learnt from ``X`` and ``y``."""
        _one_dimensional(X)
        self._built = self._build()
        return self

    def transform(self, X: Iterable[str]) -> npt.NDArray[np.object_]:
        """Return the sanitized texts, in the order of the texts that came."""
        texts = list(_one_dimensional(X))
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise DataError(
                    f"the samples have a value of type {type(text).__name__} at row {row} (counted from 0); make it a "
                    "string, the empty one where there is no text"
                )
        done = np.empty(len(texts), dtype=object)
        done[:] = self._ready().batch(texts).texts
        return done

    @property
    def guarantee(self) -> Guarantee:
        """What one call of :meth:`transform` promises."""
        return self._ready().guarantee

    def get_feature_names_out(self, input_features: Iterable[str] | None = None) -> npt.NDArray[np.object_]:
        """Return the name of the only feature: the text."""
        return np.array(["text"] if input_features is None else list(input_features), dtype=object)

    def set_params(self, **params: Any) -> Self:
        """Change settings; the sanitizer is built again with the new ones."""
        super().set_params(**params)
        self.__dict__.pop("_built", None)
        return self

    def _ready(self) -> Sanitizer:
        built: Sanitizer | None = self.__dict__.get("_built")
        return self._build() if built is None else built

    def _build(self) -> Sanitizer:
        if self.sanitizer is None:
            return build_sanitizer(**{name: value for name, value in self._settings().items() if name != "sanitizer"})
        if not isinstance(self.sanitizer, Sanitizer):
            raise ParameterError(f"sanitizer must be a Sanitizer, got a {type(self.sanitizer).__name__}")
        defaults = inspect.signature(type(self)).parameters
        unused = [
            name
            for name, value in self._settings().items()
            if name != "sanitizer" and value is not defaults[name].default and value != defaults[name].default
        ]
        if unused:
            raise ParameterError(f"a ready sanitizer has its own settings; leave {', '.join(unused)} out")
        return self.sanitizer

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = self.get_params(deep=False)
        return settings

    def __sklearn_clone__(self) -> Self:
        """Share what is never changed: a copy of the space for every clone would fill the memory."""
        return type(self)(**self._settings())

    def __sklearn_is_fitted__(self) -> bool:
        """Nothing is learnt, so there is nothing to wait for."""
        return True

    def __sklearn_tags__(self) -> Any:
        """Texts come in, one for each sample; noise is drawn, and nothing is learnt."""
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.non_deterministic = True
        tags.no_validation = True
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _one_dimensional(samples: Iterable[str]) -> Iterable[str]:
    if isinstance(samples, str) or getattr(samples, "ndim", 1) != 1:
        raise ParameterError(
            "one text for each sample is needed, in a list or another one-dimensional collection; of a frame, choose "
            "one column"
        )
    return samples
