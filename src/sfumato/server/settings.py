"""What an operator can set, with the bounds of each setting.  How settings fit together is checked in ``configuration``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sfumato.foundation.checks import LARGEST_EPSILON

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}$")]
"""Names show up in metrics and logs, so they are short and plain."""
Epsilon = Annotated[float, Field(gt=0, le=LARGEST_EPSILON, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Scope = Literal["privatize", "explain", "guarantee", "budget", "chat", "metrics"]
ANYONE = "*"


class Section(BaseModel):
    """A table of the file: unknown settings are refused, and nothing changes after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class ServerSettings(Section):
    """Where the service listens, and with how many processes."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """The port to listen at; 0 takes a free one."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """How many processes answer."""
    drain_seconds: Seconds = 20.0
    """How long requests that have begun may take after the service is asked to end."""
    hosts: list[str] = []
    """Names by which the service may be addressed; any, where none is given."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged at least; requests are information."""


class Limits(Section):
    """What a caller may ask for at most."""

    body_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 1_000_000
    """Most bytes in the body of a request."""
    body_seconds: Seconds = 20.0
    """How long the head of a request may take to come, and after it the body."""
    text_chars: Annotated[int, Field(ge=1, le=2**30)] = 200_000
    """Most characters in the texts of a request together."""
    batch_texts: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Most texts in a request."""
    explained_words: Annotated[int, Field(ge=1, le=10_000)] = 400
    """Most distinct words that are looked up to explain a text."""
    requests_per_minute: Annotated[float, Field(gt=0, le=10_000_000)] = 600.0
    """Requests of each key, and of all callers without one together."""
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 60
    """How many requests may come at once after a quiet time."""
    failures_per_minute: Annotated[float, Field(gt=0, le=10_000_000)] = 120.0
    """Requests without a valid key, from all callers together, that are looked at."""
    concurrent: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Requests and idle connections of one process."""
    threads: Annotated[int, Field(ge=1, le=256)] = 8
    """Threads of one process that draw."""


class LedgerSettings(Section):
    """Where budgets are kept."""

    url: str = ""
    """A file, or the address of a PostgreSQL database."""
    url_file: Path | None = None
    """A file that holds the address, for one with a password."""
    kind: Literal["metric", "pure", "group"] = "metric"
    """The kind of budget that is charged."""
    subject_key_file: Path | None = None
    """A file with the secret behind the pseudonyms of subjects; names are stored without one."""
    timeout: Seconds = 10.0
    """How long to wait for others."""


class NoiseSettings(Section):
    """The secret from which repeatable noise is derived."""

    key_file: Path | None = None
    """A file of at least 32 secret bytes; needed with a ledger."""


class SpaceSettings(Section):
    """A vocabulary with vectors."""

    source: str = "default"
    """``default``, a fetched name, or a file."""
    words: Annotated[int, Field(ge=2)] | None = None
    """Only so many of its first words."""


class MechanismSettings(Section):
    """A mechanism that callers may name, at one epsilon or at several."""

    algorithm: str = ""
    """One of ``sfumato mechanisms``."""
    artifact: Path | None = None
    """A compiled mechanism in a file, in place of algorithm, space, epsilon, tuning and options."""
    digest: str | None = None
    """What the file's digest must be."""
    space: Name = "default"
    """One of ``[spaces]``."""
    epsilon: Epsilon | None = None
    """The epsilon a caller gets who does not choose."""
    epsilons: list[Epsilon] = []
    """Others that a caller may choose."""
    tuning: str | None = None
    """The tuning a caller gets who does not choose."""
    tunings: list[str] = []
    """Others that a caller may choose."""
    options: dict[str, Any] = {}
    """Further options of the algorithm."""
    allow_unsound: bool = False
    """Offer it although its published guarantee is false."""
    oov: Literal["draw", "spell", "mask", "keep"] = "draw"
    """What becomes of protected words outside the space."""
    carry_case: bool = True
    """Give replacements the letter case of the original, which is then public."""
    consistency: Literal["token", "record"] = "token"
    """Draw each occurrence by itself, or each word once in a text."""
    digit_epsilon: Epsilon | None = None
    """Replace numbers digit by digit, each digit at this epsilon."""
    identifiers: Literal["fixed", "preserved"] | None = None
    """Replace addresses, numbers of cards and the like by random ones of a fixed form, or of their own."""
    public_length: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Give every text so many words, so that its length is not to be seen."""


class Entities(Section):
    """Named entities found by a spaCy pipeline."""

    pipeline: str
    """A spaCy pipeline, by name or folder."""
    categories: list[str] = []
    """Which kinds of entity; all, where none is given."""


class PolicySettings(Section):
    """Which words are protected: any that a setting names (all, where none does), less those that are kept."""

    protect: list[Literal["everything", "numbers", "identifiers"]] = []
    """What is protected, beside what the other settings name."""
    protect_words_file: Path | None = None
    """A file with protected words, one in a line."""
    protect_patterns: list[str] = []
    """Regular expressions; what they match is protected."""
    entities: Entities | None = None
    """Named entities that a spaCy pipeline finds: ``pipeline`` and ``categories``."""
    presidio: list[str] = []
    """Kinds of entity that Presidio finds."""
    keep_words_file: Path | None = None
    """A file with words that stay, one in a line."""
    keep_stop_words: list[str] = []
    """Languages whose stop words stay."""


class KeySettings(Section):
    """An API key, of which only a hash is known here."""

    id: Name
    """Its name, in logs and limits."""
    hash: str
    """What ``sfumato serve --new-key`` printed."""
    scopes: list[Scope]
    """What it may do: privatize, explain, guarantee, budget, chat, metrics."""
    subject: str | None = None
    """Whose budget is charged where a request does not say."""
    subjects: list[str] = []
    """Others that this key may name; ``["*"]`` for all."""
    mechanisms: list[Name] = []
    """Which mechanisms it may use; all, where none is given."""
    policies: list[Name] = []
    """Which policies it may use; all, where none is given."""
    requests_per_minute: Annotated[float, Field(gt=0, le=10_000_000)] | None = None
    """A limit of its own."""


class AnonymousSettings(Section):
    """What may be done without a key."""

    scopes: list[Scope] = []
    """What anybody may do; nothing, unless you say so."""
    subject: str | None = None
    """Whose budget is charged."""
    mechanisms: list[Name] = []
    """Which mechanisms may be used; all, where none is given."""
    policies: list[Name] = []
    """Which policies may be used; all, where none is given."""


class ChatSettings(Section):
    """The chat model behind the proxy."""

    upstream: str
    """Address of its interface, to which ``/chat/completions`` is added."""
    mechanism: Name
    """The mechanism of the proxy; callers do not choose."""
    policy: Name | None = None
    """Its policy; the default one, where none is given."""
    models: list[str]
    """Models a caller may name; the first is the default."""
    key_file: Path | None = None
    """A file with the upstream's API key."""
    roles: list[Literal["user", "assistant", "system", "developer", "tool"]] = ["user", "assistant", "tool"]
    """Whose messages are privatized; the others pass as they are."""
    restore: Literal["never", "on-request"] = "never"
    """Whether replaced words may be put back into the answer."""
    timeout: Seconds = 120.0
    """How long to wait for the model."""
    answer_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 4_000_000
    """Most bytes of an answer."""


class PageSettings(Section):
    """The page at ``/``."""

    enabled: bool = True
    """Whether there is one."""


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

    @field_validator("spaces")
    @classmethod
    def _with_the_default(cls, spaces: dict[Name, SpaceSettings]) -> dict[Name, SpaceSettings]:
        return {"default": SpaceSettings(), **spaces}

    @property
    def mechanism(self) -> str:
        """The mechanism of a caller who does not choose."""
        return self.default_mechanism or next(iter(self.mechanisms))

    @property
    def policy(self) -> str:
        """The policy of a caller who does not choose."""
        return self.default_policy or next(iter(self.policies))
