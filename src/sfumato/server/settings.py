"""What an operator can set, with the bounds of each setting.  How settings fit together is checked in ``configuration``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sfumato.foundation.checks import LARGEST_EPSILON

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}$")]
"""Names show up in metrics and logs, so they are short and plain."""
Epsilon = Annotated[float, Field(gt=0, le=LARGEST_EPSILON, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Scope = Literal["privatize", "explain", "guarantee", "budget", "chat", "metrics"]
ANYONE = "*"


class Section(BaseModel):
    """A table of the file: unknown settings are refused, and nothing changes after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ServerSettings(Section):
    """Where the service listens, and with how many processes."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    drain_seconds: Seconds = 20.0
    """How long requests that have begun may take after the service is asked to end."""
    hosts: list[str] = []
    """Names by which the service may be addressed; any, where none is given."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Limits(Section):
    """What a caller may ask for at most."""

    body_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 1_000_000
    body_seconds: Seconds = 20.0
    """How long the head of a request may take to come, and after it the body."""
    text_chars: Annotated[int, Field(ge=1, le=2**30)] = 200_000
    batch_texts: Annotated[int, Field(ge=1, le=100_000)] = 256
    explained_words: Annotated[int, Field(ge=1, le=10_000)] = 400
    requests_per_minute: Annotated[float, Field(gt=0, le=10_000_000)] = 600.0
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 60
    """How many requests may come at once after a quiet time."""
    failures_per_minute: Annotated[float, Field(gt=0, le=10_000_000)] = 120.0
    """Requests without a valid key, from all callers together, that are looked at."""
    concurrent: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Requests and idle connections of one process."""
    threads: Annotated[int, Field(ge=1, le=256)] = 8


class LedgerSettings(Section):
    """Where budgets are kept."""

    url: str = ""
    """A file, or the address of a PostgreSQL database."""
    url_file: Path | None = None
    """A file that holds the address, for one with a password."""
    kind: Literal["metric", "pure", "group"] = "metric"
    subject_key_file: Path | None = None
    timeout: Seconds = 10.0


class NoiseSettings(Section):
    """The secret from which repeatable noise is derived."""

    key_file: Path | None = None


class SpaceSettings(Section):
    """A vocabulary with vectors."""

    source: str = "default"
    """``default``, a fetched name, or a file."""
    words: Annotated[int, Field(ge=2)] | None = None


class MechanismSettings(Section):
    """A mechanism that callers may name, at one epsilon or at several."""

    algorithm: str = ""
    artifact: Path | None = None
    """A compiled mechanism in a file, in place of algorithm, space, epsilon, tuning and options."""
    digest: str | None = None
    """What the file's digest must be."""
    space: Name = "default"
    epsilon: Epsilon | None = None
    """The epsilon a caller gets who does not choose."""
    epsilons: list[Epsilon] = []
    """Others that a caller may choose."""
    tuning: str | None = None
    tunings: list[str] = []
    options: dict[str, Any] = {}
    allow_unsound: bool = False
    oov: Literal["draw", "spell", "mask", "keep"] = "draw"
    carry_case: bool = True
    consistency: Literal["token", "record"] = "token"
    digit_epsilon: Epsilon | None = None
    identifiers: Literal["fixed", "preserved"] | None = None
    public_length: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Entities(Section):
    """Named entities found by a spaCy pipeline."""

    pipeline: str
    categories: list[str] = []


class PolicySettings(Section):
    """Which words are protected: any that a setting names (all, where none does), less those that are kept."""

    protect: list[Literal["everything", "numbers", "identifiers"]] = []
    protect_words_file: Path | None = None
    protect_patterns: list[str] = []
    entities: Entities | None = None
    presidio: list[str] = []
    keep_words_file: Path | None = None
    keep_stop_words: list[str] = []


class KeySettings(Section):
    """An API key, of which only a hash is known here."""

    id: Name
    hash: str
    scopes: list[Scope]
    subject: str | None = None
    """Whose budget is charged where a request does not say."""
    subjects: list[str] = []
    """Others that this key may name; ``["*"]`` for all."""
    mechanisms: list[Name] = []
    """Which mechanisms it may use; all, where none is given."""
    policies: list[Name] = []
    """Which policies it may use; all, where none is given."""
    requests_per_minute: Annotated[float, Field(gt=0, le=10_000_000)] | None = None


class AnonymousSettings(Section):
    """What may be done without a key."""

    scopes: list[Scope] = []
    subject: str | None = None
    mechanisms: list[Name] = []
    policies: list[Name] = []


class ChatSettings(Section):
    """The chat model behind the proxy."""

    upstream: str
    """Address of its interface, to which ``/chat/completions`` is added."""
    mechanism: Name
    policy: Name | None = None
    models: list[str]
    """Models a caller may name; the first is the default."""
    key_file: Path | None = None
    """A file with the upstream's API key."""
    roles: list[Literal["user", "assistant", "system", "developer", "tool"]] = ["user", "assistant", "tool"]
    """Whose messages are privatized; the others pass as they are."""
    restore: Literal["never", "on-request"] = "never"
    timeout: Seconds = 120.0
    answer_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 4_000_000


class PageSettings(Section):
    """The page at ``/``."""

    enabled: bool = True


class MetricsSettings(Section):
    """Who may read the figures of the service."""

    public: bool = False
    """Without a key; for a service that only the monitoring can reach."""


class Settings(Section):
    """The whole file."""

    server: ServerSettings = ServerSettings()
    limits: Limits = Limits()
    ledger: LedgerSettings | None = None
    noise: NoiseSettings = NoiseSettings()
    spaces: dict[Name, SpaceSettings] = {"default": SpaceSettings()}
    mechanisms: Annotated[dict[Name, MechanismSettings], Field(min_length=1)]
    default_mechanism: Name | None = None
    """The first one, where none is given."""
    policies: dict[Name, PolicySettings] = {"everything": PolicySettings()}
    default_policy: Name | None = None
    keys: list[KeySettings] = []
    anonymous: AnonymousSettings = AnonymousSettings()
    chat: ChatSettings | None = None
    page: PageSettings = PageSettings()
    metrics: MetricsSettings = MetricsSettings()

    @property
    def mechanism(self) -> str:
        """The mechanism of a caller who does not choose."""
        return self.default_mechanism or next(iter(self.mechanisms))

    @property
    def policy(self) -> str:
        """The policy of a caller who does not choose."""
        return self.default_policy or next(iter(self.policies))
