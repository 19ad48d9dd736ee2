"""What a server publishes before anybody sends anything: the task, the noise, and where the vectors come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sfumato.foundation.checks import gather, require_epsilon, require_one_of
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.latent.labels import RandomisedResponse
from sfumato.latent.plan import NoisePlan

KINDS = ("linear", "mlp")
LEARNING = ("once", "online")
_FORMAT = "sfumato latent terms 1"
_MOST_CLASSES = 10_000
_LONGEST_NAME = 100


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The public terms of one task.

    A client computes the promise from ``plan`` itself; nothing in here has to be believed for privacy.

    >>> terms = Terms(plan=NoisePlan(clip=1.0, scale=4.0, dimension=3), classes=("bad", "good"))
    >>> Terms.from_json(terms.to_json()) == terms
    True
    """

    plan: NoisePlan
    classes: tuple[str, ...]
    """The names of the classes; a label is a place in this list."""
    pairs: bool = False
    """A record is two sentences, whose vectors stand side by side."""
    label_epsilon: float | None = None
    """Epsilon of the randomised response for labels; None where labels are public."""
    head: str = "linear"
    learning: str = "once"
    """Whether the head is trained when somebody asks for it, or a step at a time as vectors arrive."""
    encoder: dict[str, Any] = field(default_factory=dict)
    """What the encoder is, as :mod:`sfumato.latent.service.publishing` describes it; empty where owners bring their own."""

    def __post_init__(self) -> None:
        gather(
            lambda: require_one_of(KINDS, head=self.head),
            lambda: require_one_of(LEARNING, learning=self.learning),
            lambda: require_epsilon(label_epsilon=1.0 if self.label_epsilon is None else self.label_epsilon),
        )
        names = self.classes
        if not 2 <= len(names) <= _MOST_CLASSES or len(set(names)) != len(names) or not all(names):
            raise ParameterError(f"give 2 to {_MOST_CLASSES} different names of classes")
        if not all(name.isprintable() and len(name) <= _LONGEST_NAME for name in names):
            raise ParameterError(
                f"the name of a class has at most {_LONGEST_NAME} characters, all of which can be printed"
            )
        if not isinstance(self.encoder, dict):
            raise ParameterError("the encoder is described by named values")
        if self.plan.position != "sentence":
            raise ParameterError("the service takes sentence vectors: make the plan with position='sentence'")
        if self.plan.releases != 1:
            raise ParameterError("the service takes every sentence once: make the plan for a single release")
        if self.pairs and self.plan.dimension % 2:
            raise ParameterError("a pair has two vectors of one size: its dimension is even")

    @property
    def response(self) -> RandomisedResponse | None:
        """How labels are sent, where they are not public."""
        if self.label_epsilon is None:
            return None
        return RandomisedResponse.of(classes=len(self.classes), epsilon=self.label_epsilon)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "format": _FORMAT,
            "plan": self.plan.to_json(),
            "classes": list(self.classes),
            "pairs": self.pairs,
            "label_epsilon": self.label_epsilon,
            "head": self.head,
            "learning": self.learning,
            "encoder": self.encoder,
        }

    @classmethod
    def from_json(cls, data: Any) -> Terms:
        """Read back what :meth:`to_json` wrote, checking everything."""
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise DataError("these are not the terms of a server of this program, or of another version of it")
        values = {name: value for name, value in data.items() if name != "format"}
        try:
            plan = NoisePlan.from_json(values.pop("plan"))
            classes = tuple(map(str, values.pop("classes")))
            return cls(plan=plan, classes=classes, **values)
        except (TypeError, KeyError, AttributeError):
            raise DataError("the terms are not complete or name something unknown; ask the server's operator") from None
