"""Texts in, texts that may be seen out; and what may become of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse

from sfumato.ledger import Charge
from sfumato.ledger.records import shown
from sfumato.server import answers, schemas
from sfumato.server.answers import problems
from sfumato.server.auditing import Audit, audit
from sfumato.server.catalogue import Choice, NotOfferedError, Service
from sfumato.server.explaining import composition, explain
from sfumato.server.keys import Caller
from sfumato.server.problems import ProblemError
from sfumato.server.settings import Limits
from sfumato.server.state import Known, Shared, State, require_own_key, require_scope
from sfumato.text import pieces

router = APIRouter(prefix="/v1")

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="A request that is repeated under the same key gets the same answer and is charged once.",
    ),
]


def readable(text: str) -> str:
    """Return a text that can be written in UTF-8; JSON can spell half characters that cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ProblemError(422, f"the text holds half of a character at position {error.start}") from None
    return text


def require_within(limits: Limits, texts: list[str]) -> None:
    """Raise where texts are too many or too long."""
    if len(texts) > limits.batch_texts:
        raise ProblemError(413, f"at most {limits.batch_texts} texts at once")
    if sum(map(len, texts)) > limits.text_chars:
        raise ProblemError(413, f"at most {limits.text_chars} characters at once")
    for text in texts:
        readable(text)


def service_for(state: State, caller: Caller, asked: schemas.Chosen) -> Service:
    """Return what a request goes through, where the caller may use it."""
    settings = state.settings
    name = asked.mechanism or _first(settings.mechanism, settings.mechanisms, caller.may_use)
    policy = asked.policy or _first(settings.policy, settings.policies, caller.may_choose)
    if not caller.may_use(name):
        raise NotOfferedError("this key may not use that mechanism")
    if not caller.may_choose(policy):
        raise NotOfferedError("this key may not use that policy")
    return state.catalogue.service(name, asked.tuning, asked.epsilon, policy)


def _first(default: str, names: Iterable[str], allowed: Callable[[str], bool]) -> str:
    """Return the default where it is allowed, and else the first name that is."""
    return next(name for name in (default, *names) if allowed(name))


def count_charge(state: State, charge: Charge | None) -> None:
    """Count a charge."""
    if charge is not None:
        state.metrics.charges.labels("replayed" if charge.replayed else "made").inc()


@router.post(
    "/privatize",
    response_model=schemas.PrivatizeAnswer,
    responses=problems(400, 402, 404, 409, 422, 503),
    summary="Replace the protected words of texts",
)
def privatize(
    asked: schemas.PrivatizeRequest, state: Shared, caller: Known, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Replace each protected word by a random one that is likelier to be near in meaning.

    Where budgets are kept, the subject is charged first.
    """
    require_scope(caller, "privatize")
    if idempotency_key is not None:
        require_own_key(caller)
    texts = asked.every
    require_within(state.settings.limits, texts)
    service = service_for(state, caller, asked)
    made = state.releases.make(service, caller, texts, subject=asked.subject, key=idempotency_key)
    count_charge(state, made.charge)
    state.metrics.words.labels(service.choice.mechanism).inc(made.protected)
    results = [
        {"text": after, "pieces": aligned_pieces(before, after) if asked.pieces else None}
        for before, after in zip(texts, made.texts, strict=True)
    ]
    return answers.json(
        {
            "results": results,
            "chosen": answers.chosen(service, state.settings),
            "protected": made.protected,
            "guarantee": answers.guarantee(made.guarantee),
            "document": answers.plain(made.composition),
            "charge": answers.charged(made.charge),
        }
    )


def aligned_pieces(before: str, after: str) -> list[str] | None:
    """Return the pieces of an output, where its gaps are those of the input."""
    found = pieces(after)
    return found if found[0::2] == pieces(before)[0::2] else None


@router.post(
    "/explain",
    response_model=schemas.ExplainAnswer,
    responses=problems(400, 404, 422),
    summary="Show what may become of each word",
)
def explain_text(asked: schemas.ExplainRequest, state: Shared, caller: Known) -> JSONResponse:
    """Show to the owner of a text by what its words would be replaced, and how probably; nothing is drawn or charged."""
    require_scope(caller, "explain")
    require_within(state.settings.limits, [asked.text])
    service = service_for(state, caller, asked)
    sanitizer = service.sanitizer
    found = explain(sanitizer, asked.text, top=asked.top, most_words=state.settings.limits.explained_words)
    words = [
        {
            "word": one.word,
            "unchanged": one.unchanged,
            "distance": one.distance,
            "candidates": [dict(zip(("word", "probability", "distance"), c, strict=True)) for c in one.candidates],
            "others": one.others,
        }
        for one in found.prospects
    ]
    tokens = [
        {"fate": fate, "word": place, "unchanged": None if place is None else found.prospects[place].unchanged}
        for fate, place in zip(found.fates, found.places, strict=True)
    ]
    price = None if service.prices is None else shown(service.prices.of_texts([asked.text]).amount)
    data = {
        "chosen": answers.chosen(service, state.settings),
        "pieces": found.pieces,
        "tokens": tokens,
        "words": words,
        "exact": found.exact,
        "unchanged": found.mean("unchanged"),
        "distance": found.mean("distance"),
        "protected": found.protected,
        "certified": getattr(service.guarantee, "certified", None),
        "guarantee": answers.guarantee(service.guarantee),
        "document": answers.plain(composition(sanitizer, found.protected)),
        "price": price,
    }
    return answers.json(answers.plain(data))


@router.get(
    "/guarantee",
    response_model=schemas.GuaranteeAnswer,
    responses=problems(422),
    summary="Say what is promised",
)
def guarantee(asked: Annotated[schemas.Chosen, Query()], state: Shared, caller: Known) -> JSONResponse:
    """Return the promise about a word, as data and in plain English."""
    require_scope(caller, "guarantee")
    return answers.json(answers.guarantee(service_for(state, caller, asked).guarantee))


def _new_audit(state: State, choice: Choice) -> Audit:
    return audit(state.catalogue.mechanism(choice), state.catalogue.figures(choice))


@router.get("/audit", response_model=schemas.AuditAnswer, responses=problems(422), summary="Measure a mechanism")
async def audited(asked: Annotated[schemas.ChosenMechanism, Query()], state: Shared, caller: Known) -> JSONResponse:
    """Recompute the claim of a mechanism, and let the best possible attacker guess the words behind its outputs."""
    require_scope(caller, "guarantee")
    service = service_for(state, caller, schemas.Chosen(**asked.model_dump()))
    async with state.auditing:  # one at a time: audits take long, and must not take the threads of other requests
        found = state.audits.get(service.choice)
        if found is None:
            found = await anyio.to_thread.run_sync(_new_audit, state, service.choice)
            state.audits[service.choice] = found
    figures = found.figures
    data: dict[str, Any] = {
        "chosen": answers.chosen(service, state.settings),
        "words": figures.words,
        "certified": getattr(service.guarantee, "certified", None),
        "verified": found.verified,
        "realised": found.realised,
        "unchanged": figures.unchanged,
        "spread": figures.spread,
        "distance": figures.distance,
        "exact": figures.exact,
        "attack_words": found.attacked or None,
        "attack_success": None if found.attack is None else found.attack.success,
        "attack_blind": None if found.attack is None else found.attack.blind,
        "guarantee": answers.guarantee(service.guarantee),
    }
    return answers.json(answers.plain(data))
