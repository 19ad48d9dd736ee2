"""What goes in and comes out over HTTP.  The models are the schema that ``/openapi.json`` shows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sfumato.foundation.checks import LARGEST_EPSILON

Choose = Annotated[str, Field(min_length=1, max_length=40)]
Subject = Annotated[str, Field(min_length=1, max_length=500, pattern="^[^\\x00]*$")]
Epsilon = Annotated[float, Field(gt=0, le=LARGEST_EPSILON, allow_inf_nan=False)]


class Input(BaseModel):
    """A request: unknown fields are refused, and no message shows what was in one."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, frozen=True)


class ChosenMechanism(Input):
    """Which mechanism a caller chooses among the operator's offers; left out, the operator's default."""

    mechanism: Choose | None = Field(None, description="A mechanism that the operator offers, by name.")
    epsilon: Epsilon | None = Field(None, description="One of the epsilons it is offered with.")
    tuning: Choose | None = Field(None, description="One of the tunings it is offered with.")


class Chosen(ChosenMechanism):
    """What a caller chooses among the operator's offers; left out, the operator's default."""

    policy: Choose | None = Field(None, description="A policy that the operator offers, by name.")


class PrivatizeRequest(Chosen):
    """One text, or several."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "The food was cold and we had to wait an hour."},
                {"texts": ["Cold food.", "A warm welcome."], "mechanism": "everyday", "subject": "customer 17"},
            ],
            "oneOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}, "texts": {"type": "null"}}},
                {"required": ["texts"], "properties": {"texts": {"type": "array"}, "text": {"type": "null"}}},
            ],
        }
    )
    text: str | None = None
    texts: list[str] | None = Field(None, min_length=1)
    subject: Subject | None = Field(None, description="Whose budget is charged; the key's own where it is left out.")
    pieces: bool = Field(False, description="Whether to return the texts cut into gaps and words as well.")

    @model_validator(mode="after")
    def _one_of_both(self) -> PrivatizeRequest:
        if (self.text is None) == (self.texts is None):
            raise ValueError("give either text or texts")
        return self

    @property
    def every(self) -> list[str]:
        """The texts."""
        return [self.text] if self.text is not None else list(self.texts or ())


class ExplainRequest(Chosen):
    """A text to look at; nothing is released."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "cold food", "top": 5}]})
    text: str
    top: Annotated[int, Field(ge=1, le=50, description="How many candidates for each word.")] = 10


class ChosenAnswer(BaseModel):
    """Which offer a request went through."""

    mechanism: str
    algorithm: str
    tuning: str | None
    epsilon: float | None
    policy: str


class GuaranteeAnswer(BaseModel):
    """A guarantee as data, with its statement in plain English."""

    model_config = ConfigDict(extra="allow")
    kind: str
    mechanism: str
    statement: str
    sound: bool
    secure: bool


class ChargeAnswer(BaseModel):
    """What was charged."""

    kind: str
    amount: str = Field(description="Exact, as a decimal number.")
    number: int = Field(description="Place of the charge in the history of the budget.")
    replayed: bool = Field(description="It was made by an earlier request with the same key; this one cost nothing.")


class PrivatizedText(BaseModel):
    """One text that may be seen."""

    text: str
    pieces: list[str] | None = Field(
        None, description="Gap, word, gap ... of the text, where they line up with the input's."
    )


class PrivatizeAnswer(BaseModel):
    """Texts that may be seen, with what is promised about them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "results": [{"text": "The meal was warm and we had to come an afternoon.", "pieces": None}],
                    "chosen": {
                        "mechanism": "everyday", "algorithm": "tem", "tuning": "best", "epsilon": 6.0,
                        "policy": "everything",
                    },
                    "protected": 10,
                    "guarantee": {
                        "kind": "metric", "mechanism": "tem", "statement": "Whoever sees the output ...",
                        "sound": True, "secure": True,
                    },
                    "document": {"words": 10, "greatest_loss": 154.8},
                    "charge": {"kind": "metric", "amount": "60", "number": 1, "replayed": False},
                }
            ]
        }
    )  # fmt: skip
    results: list[PrivatizedText]
    chosen: ChosenAnswer
    protected: int = Field(description="How many words were drawn, over all texts.")
    guarantee: GuaranteeAnswer
    document: dict[str, Any] | None = Field(description="What the promise about a word comes to for the longest text.")
    charge: ChargeAnswer | None


class Candidate(BaseModel):
    """A word that may come out."""

    word: str
    probability: float
    distance: float


class ExplainedWord(BaseModel):
    """A distinct word of the text with what may come out for it."""

    word: str
    unchanged: float = Field(description="Probability that it stays as it is.")
    distance: float = Field(description="Expected distance to what comes out.")
    candidates: list[Candidate]
    others: float = Field(description="Probability of all words that are not among the candidates.")


class ExplainedToken(BaseModel):
    """One word of the text."""

    fate: Literal["drawn", "kept", "unknown", "number", "identifier", "unlooked"]
    word: int | None = Field(None, description="Place in the list of distinct words.")
    unchanged: float | None = None


class ExplainAnswer(BaseModel):
    """What may become of a text."""

    chosen: ChosenAnswer
    pieces: list[str] = Field(description="Gap, word, gap, word ... gap.")
    tokens: list[ExplainedToken]
    words: list[ExplainedWord]
    exact: bool = Field(description="Whether the probabilities come from the table, rather than from public draws.")
    unchanged: float | None = Field(description="Mean probability that a protected word stays as it is.")
    distance: float | None = Field(description="Mean expected distance of the protected words that are in the space.")
    protected: int
    certified: float | None
    guarantee: GuaranteeAnswer
    document: dict[str, Any] | None
    price: str | None = Field(description="What a release of this text would be charged.")


class OfferedMechanism(BaseModel):
    """A mechanism that may be named."""

    name: str
    algorithm: str
    summary: str
    sound: bool
    tunings: list[str]
    epsilons: list[float]
    refused: list[ChosenAnswer] = Field(description="Combinations that have no certificate.")


class OffersAnswer(BaseModel):
    """What this caller may name."""

    mechanisms: list[OfferedMechanism]
    policies: list[str]
    scopes: list[str]
    subject: str | None
    budgets: bool
    limits: dict[str, float]
    chat_models: list[str]
    chat_restore: bool


class AuditAnswer(BaseModel):
    """How a mechanism stands up to measurement, over public words."""

    chosen: ChosenAnswer
    words: int = Field(description="How many words the figures are over.")
    certified: float | None
    verified: bool | None = Field(
        description="Whether a recomputation over all pairs agrees; null where it was not made."
    )
    realised: float | None
    unchanged: float
    spread: float
    distance: float
    exact: bool
    attack_words: int | None = Field(description="Among how many equally likely words the attacker guesses.")
    attack_success: float | None = Field(description="How often the best possible guess is right.")
    attack_blind: float | None = Field(description="How often a guess without the output is right.")
    guarantee: GuaranteeAnswer


class BudgetAnswer(BaseModel):
    """What a subject may spend; amounts are exact decimals."""

    kind: str
    meaning: str
    limit: str
    spent: str
    left: str
    charges: int


class Problem(BaseModel):
    """What went wrong (RFC 9457); never with words of the request."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    request_id: str | None = None
    problems: list[str] | None = None


class Health(BaseModel):
    """Whether the service is there."""

    status: Literal["ok", "draining"]
    version: str
