"""From the options of a command to a compiled mechanism."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.accounting.neighbour_loss import DEFAULT_NEIGHBOUR_LOSS, epsilon_for_neighbour_loss
from sfumato.audit.attacker_success import AttackerSuccess
from sfumato.cli.attacker import calibrate_to_attacker, require_calibratable
from sfumato.cli.policies import policy_of, public_words
from sfumato.cli.progress import CompileProgress
from sfumato.foundation.checks import require_epsilon, require_positive
from sfumato.foundation.errors import ParameterError, UnsoundError
from sfumato.foundation.registry import Entry, entry
from sfumato.mechanism.base import Mechanism
from sfumato.policy import Policy
from sfumato.space import Space

_NOT_FROM_TEXT = ("tick", "say")
"""Options that are functions."""


@dataclass(frozen=True)
class Compiled:
    """A mechanism with what was asked for."""

    mechanism: Mechanism
    space: Space
    policy: Policy
    epsilon: float | None
    """As asked for or computed from the neighbour loss; None for a mechanism without epsilon."""
    neighbour_loss: float | None
    """Of the nominal epsilon."""
    attacker: AttackerSuccess[Mechanism] | None = None
    """What the best attacker recovers, where epsilon was chosen by that."""


@dataclass(frozen=True)
class MechanismRequest:
    """The mechanism options of a command."""

    mechanism: str = "tem"
    epsilon: float | None = None
    neighbour_loss: float | None = None
    tuning: str | None = None
    space: str = "default"
    space_words: int | None = None
    keep: Path | None = None
    options: tuple[str, ...] = ()
    allow_unsound: bool = False
    protect: tuple[str, ...] = ()
    stop_words: tuple[str, ...] = ()
    attacker_success: float | None = None
    artifact: Path | None = None
    """A compiled mechanism; the other options are those it was compiled with."""

    def __post_init__(self) -> None:
        """Find what is wrong before anything slow is begun."""
        if self.artifact is not None:
            return
        known = self.entry
        if not known.sound and not self.allow_unsound:
            raise UnsoundError(
                f"the published guarantee of {known.name} is false; choose another (see sfumato mechanisms), or "
                "run it all the same with --allow-unsound"
            )
        if self.epsilon is not None and self.neighbour_loss is not None:
            raise ParameterError("give either --epsilon or --neighbour-loss, not both: each follows from the other")
        if self.epsilon is not None:
            require_epsilon(epsilon=self.epsilon)
        if self.neighbour_loss is not None:
            require_positive(neighbour_loss=self.neighbour_loss)
        if self.attacker_success is not None:
            require_calibratable(self.attacker_success, known, self.epsilon, self.neighbour_loss)
        names = set(self.extra_options())
        if known.takes_epsilon or self.epsilon is not None or self.neighbour_loss is not None:
            names.add("epsilon")
        known.check_options(names)

    @property
    def entry(self) -> Entry:
        """The registered mechanism."""
        return entry(self.mechanism)

    def extra_options(self) -> dict[str, Any]:
        """Return ``--tuning`` and every ``--option`` as values of their types; a list of words is read from its file."""
        if self.artifact is not None:
            from sfumato.cli.artifact import options_of

            return options_of(self.artifact)
        found: dict[str, Any] = {} if self.tuning is None else {"tuning": self.tuning}
        types = _option_types(self.entry)
        for item in self.options:
            name, equals, value = item.partition("=")
            name = name.strip().replace("-", "_")
            if not equals:
                raise ParameterError("--option takes KEY=VALUE, for instance --option gamma=1.5")
            if name in found:
                raise ParameterError(f"option {name} is given twice")
            if name == "epsilon":
                raise ParameterError("epsilon is given with --epsilon or --neighbour-loss, not with --option")
            if name in _NOT_FROM_TEXT:
                raise ParameterError(f"option {name} cannot be given on the command line")
            # An unknown name is kept, for the registry to refuse with the names there are.
            found[name] = _parsed(name, value, types.get(name, str))
        return found

    def load_space(self) -> Space:
        """Return the space."""
        space = load_space(self.space)
        if self.space_words is not None and self.space_words < len(space):
            space = space.head(self.space_words)
        return space

    def policy(self) -> Policy:
        """Return the policy."""
        return policy_of(self.protect, self.keep, self.stop_words)

    def compile(self, progress: CompileProgress) -> Compiled:
        """Compile the mechanism, saying how far it is."""
        # A mechanism over all words also serves a policy that keeps some: its promise holds for any part of the words.
        policy = self.policy()
        if self.artifact is not None:
            from sfumato.cli.artifact import compiled_in

            return compiled_in(self.artifact, policy)
        progress.say("reading the space")
        space = self.load_space()
        options = self.extra_options()
        known = self.entry
        progress.say("measuring the space (slow once, then cached)")
        median = space.compute_statistics(tick=progress.tick).median_neighbour_distance
        epsilon = None
        if known.takes_epsilon:
            epsilon = self._epsilon(median)
            options["epsilon"] = epsilon
            progress.prefix = f"tuning {known.name} for epsilon {epsilon:.4g} (slow once, then cached): "
        for name in ("tick", "say"):
            if name in known.options:
                options[name] = getattr(progress, name)
        known.check_options(options)
        attacker = None
        if self.attacker_success is None:
            mechanism: Mechanism = known.compiler(space, **options)
        else:
            attacker = calibrate_to_attacker(known, space, options, self.attacker_success, progress)
            mechanism, epsilon = attacker.mechanism, attacker.epsilon
        loss = None if epsilon is None or not median else epsilon * median
        return Compiled(mechanism, space, policy, epsilon, loss, attacker)

    def _epsilon(self, median: float) -> float:
        if self.epsilon is not None:
            return self.epsilon
        loss = DEFAULT_NEIGHBOUR_LOSS if self.neighbour_loss is None else self.neighbour_loss
        return epsilon_for_neighbour_loss(loss, median)


def load_space(name: str) -> Space:
    """Return the space of the package, a fetched one, or one in a file."""
    from sfumato.space import catalogue

    names = [one.name for one in catalogue.entries()]
    if name == "default" or name in names:
        return Space.load(name)
    if not Path(name).exists():
        raise ParameterError(
            f"there is no space and no file {name if len(name) <= 200 else 'of that name'}; give default, the path of "
            f"a file, or one of {', '.join(names)}"
        )
    return Space.from_file(name)


def _option_types(known: Entry) -> dict[str, type]:
    """Return the type of every option: of its default, or the first in its annotation where the default is None."""
    annotations = inspect.get_annotations(known.compiler)
    types: dict[str, type] = {}
    for name, default in known.options.items():
        if default is None or default is inspect.Parameter.empty:
            written = str(annotations.get(name, "str")).split("|")[0].strip()
            types[name] = {"float": float, "int": int, "bool": bool, "Sequence[str]": list}.get(written, str)
        else:
            types[name] = type(default)
    return types


def _parsed(name: str, value: str, kind: type) -> Any:
    value = value.strip()
    if kind is list:
        return public_words(Path(value))
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise ParameterError(f"option {name} must be true or false")
        return value.lower() == "true"
    if kind not in (int, float):
        return value
    try:
        return kind(value)
    except ValueError:
        raise ParameterError(f"option {name} must be a {'whole ' if kind is int else ''}number") from None
