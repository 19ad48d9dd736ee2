"""What an audit found, with a verdict in plain words; rendering is elsewhere (:mod:`sfumato.report`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.accounting.documents import document_composition
from sfumato.audit.attacks.bayes import BayesAttack
from sfumato.audit.channel import Tick, attack_mechanism, input_words, sampled_attack
from sfumato.audit.deniability import FEWEST_OCCURRENCES, Deniability, deniability, observed_deniability
from sfumato.audit.lower_bounds import AuditResult, audit_pairs, pairs_to_try
from sfumato.audit.prior import Prior, uniform_prior
from sfumato.audit.texts import TextFigures, audit_aligned, compare_texts
from sfumato.audit.verification import VerifyResult, verify
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import Guarantee, NoGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import Mechanism, TableMechanism
from sfumato.policy import Policy
from sfumato.space import Space

HOLDS, REFUTED, NOTHING_PROMISED, UNTESTED = "holds", "refuted", "nothing promised", "not tested"
_MOSTLY = 0.5
_TYPICAL_DOCUMENT = 20


@dataclass(frozen=True)
class AuditReport:
    """An audit of a mechanism, or of a privatized text beside its original."""

    subject: str
    guarantee: Guarantee
    bounds: tuple[AuditResult, ...] = field(repr=False)
    """Lower bounds from draws, or from the text."""
    document_words: int
    """For how many protected words the loss of a document is stated."""
    verification: VerifyResult | None = None
    not_verified: str = ""
    """Why the claim was not recomputed, where it was not."""
    deniability: Deniability | None = None
    attack: BayesAttack | None = None
    attack_exact: bool = True
    prior: str = ""
    texts: TextFigures | None = None
    untested: str = ""
    """Why the claim could not be tested on draws, where it could not."""

    @property
    def worst(self) -> AuditResult | None:
        """The bound that comes nearest to the claim, or farthest beyond it."""
        return max(self.bounds, key=lambda one: _ratio(one), default=None)

    @property
    def outcome(self) -> str:
        """Whether the claim was refuted, held, was not there, or could not be tested."""
        refuted = any(one.refuted for one in self.bounds) or (
            self.verification is not None and not self.verification.passed
        )
        if refuted:
            return REFUTED
        if isinstance(self.guarantee, NoGuarantee):
            return NOTHING_PROMISED
        if self.verification is None and not self.bounds:
            return UNTESTED
        return HOLDS

    def verdict(self) -> list[str]:
        """Return the verdict as plain sentences, the most important first."""
        sentences = [_OUTCOMES[self.outcome]]
        sentences += _about_claim(self)
        sentences += _about_use(self)
        return sentences

    def to_json(self) -> dict[str, Any]:
        """Return plain data; infinite amounts are null."""
        document = document_composition(self.guarantee, self.document_words)
        data = {
            "subject": self.subject,
            "outcome": self.outcome,
            "verdict": self.verdict(),
            "guarantee": self.guarantee.to_json(),
            "verification": None if self.verification is None else self.verification.to_json(),
            "not_verified": self.not_verified or None,
            "lower_bounds": [_bound_json(one) for one in self.bounds],
            "untested": self.untested or None,
            "deniability": None if self.deniability is None else self.deniability.to_json(),
            "attack": None
            if self.attack is None
            else {
                "success": self.attack.success,
                "blind": self.attack.blind,
                "prior": self.prior,
                "exact": self.attack_exact,
            },
            "texts": None if self.texts is None else self.texts.to_json(),
            "document": None if document is None else document.to_json(),
        }
        return finite(data)  # type: ignore[no-any-return]


_OUTCOMES = {
    HOLDS: "THE CLAIM HOLDS on everything that was tested.",
    REFUTED: "THE CLAIM IS REFUTED: more privacy is lost than was promised. Do not release this.",
    NOTHING_PROMISED: "NOTHING IS PROMISED here, so there is no claim to test.",
    UNTESTED: "THE CLAIM WAS NOT TESTED; see why below.",
}


def finite(value: Any) -> Any:
    """Return plain data with null for amounts that JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _bound_json(one: AuditResult) -> dict[str, Any]:
    return {**one.__dict__, "refuted": one.refuted}


def _ratio(one: AuditResult) -> float:
    if one.claimed == 0:
        return math.inf if one.lower_bound > 0 else 0.0
    return one.lower_bound / one.claimed


def _about_claim(report: AuditReport) -> list[str]:
    sentences = []
    found = report.verification
    if found is not None:
        relation = "within" if found.passed else "BEYOND"
        sentences.append(
            f"The loss computed from the integers that run is {found.realised:.4g} at the worst pair of words that was found, "
            f"and at most {found.bound:.4g} for any: {relation} the claimed {found.claimed:.4g}."
        )
    elif report.not_verified:
        sentences.append(f"The claim was not recomputed: {report.not_verified}.")
    worst = report.worst
    if worst is not None:
        side = "MORE than" if worst.refuted else "no contradiction of"
        what = "pairs of inputs" if report.texts is None else "ways of pairing tokens"
        sentences.append(
            f"From draws alone, over {len(report.bounds)} {what}, the loss is with {worst.confidence:.0%} confidence at least "
            f"{worst.lower_bound:.4g}: {side} the {worst.claimed:.4g} that was promised there."
        )
    if report.untested:
        sentences.append(f"No lower bound was computed: {report.untested}.")
    if not report.guarantee.sound:
        sentences.append(f"The guarantee is known to be unsound: {report.guarantee.unsound_because}")
    if not report.guarantee.secure:
        sentences.append("NOT SECURE: the noise follows from a seed; whoever knows it undoes the noise.")
    return sentences


def _about_use(report: AuditReport) -> list[str]:
    sentences = []
    if report.attack is not None:
        how = "The best attacker" if report.attack_exact else "An attacker who learnt from draws"
        sentences.append(
            f"{how} who sees one output word recovers {report.attack.success:.1%} of the words ({report.attack.blind:.1%} "
            f"without looking), knowing {report.prior}."
        )
    unchanged = None
    if report.texts is not None:
        texts = report.texts
        unchanged = texts.unchanged_share
        sentences.append(
            f"{texts.unchanged:,} of {texts.protected:,} protected words ({unchanged:.1%}) came out as they were; {texts.kept:,} "
            f"tokens were kept by policy; {texts.out_of_vocabulary:,} protected ones are outside the vocabulary, of which "
            f"{texts.out_of_vocabulary_unchanged:,} passed as they are."
        )
        if texts.not_comparable:
            sentences.append(
                f"{texts.not_comparable:,} of {texts.records:,} records could not be compared token by token."
            )
        if texts.altered_although_kept:
            sentences.append(
                f"{texts.altered_although_kept:,} tokens changed although the policy keeps them: give the policy that was used."
            )
        if report.deniability is not None:
            seen = report.deniability
            sentences.append(
                f"Of the {seen.words:,} most frequent words (each occurs {FEWEST_OCCURRENCES} times or more) an occurrence stays "
                f"as it is {seen.unchanged:.1%} of the time, and {seen.spread:,.0f} different words are 95 % of what one "
                "turned into (means over words)."
            )
    elif report.deniability is not None:
        unchanged = report.deniability.unchanged
        sentences.append(
            f"A word stays as it is with probability {unchanged:.1%}, and {report.deniability.spread:,.0f} words share 95 % "
            "of the probability (means over words)."
        )
    if unchanged is not None and unchanged > _MOSTLY:
        sentences.append("Most words stay as they are: a reader sees nearly the original, whatever the guarantee says.")
    document = document_composition(report.guarantee, report.document_words)
    if document is not None:
        sentences.append(document.statement())
    return sentences


def audit_mechanism(
    mechanism: Mechanism,
    *,
    prior: Prior | None = None,
    pairs: int = 20,
    draws: int = 10_000,
    confidence: float = 0.99,
    document_words: int = _TYPICAL_DOCUMENT,
    seed: int | None = None,
    tick: Tick | None = None,
) -> AuditReport:
    """Audit a mechanism: recompute its claim, bound it from draws, attack it.

    >>> import sfumato
    >>> line = sfumato.Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [3.0]])
    >>> audit_mechanism(sfumato.compile("tem", line, epsilon=2.0), draws=1000).outcome
    'holds'
    """
    known = prior or uniform_prior(input_words(mechanism))
    verification, reason = None, ""
    try:
        verification = verify(mechanism, tick=tick)
    except CertificationError as refusal:
        reason = str(refusal)
    exact = isinstance(mechanism, TableMechanism)
    attack = attack_mechanism(mechanism, known, tick) if exact else _sampled(mechanism, known)
    key = None if seed is None else RunKey.from_seed(seed)
    bounds: Sequence[AuditResult] = ()
    untested = ""
    if isinstance(mechanism.guarantee, NoGuarantee):
        untested = "nothing is promised"
    else:
        tried = pairs_to_try(mechanism, pairs)
        bounds = audit_pairs(mechanism, tried, draws=draws, confidence=confidence, key=key)
    return AuditReport(
        subject=f"mechanism {mechanism.guarantee.mechanism} over {mechanism.space.name}",
        guarantee=mechanism.guarantee,
        bounds=tuple(bounds),
        document_words=document_words,
        verification=verification,
        not_verified=reason,
        deniability=deniability(mechanism),
        attack=attack,
        attack_exact=exact,
        prior=known.source,
        untested=untested,
    )


_MOST_SAMPLED_WORDS = 1500


def _sampled(mechanism: Mechanism, prior: Prior) -> BayesAttack | None:
    small = len(prior.chances) <= _MOST_SAMPLED_WORDS
    return sampled_attack(mechanism, prior) if small else None


def audit_texts(
    originals: Sequence[str],
    privatized: Sequence[str],
    guarantee: Guarantee,
    policy: Policy,
    space: Space,
    *,
    confidence: float = 0.99,
    shared_draws: bool = False,
    untested: str = "",
) -> AuditReport:
    """Audit a privatized text beside its original, whatever made it."""
    figures = compare_texts(originals, privatized, policy, space)
    bounds: list[AuditResult] = []
    if not untested:
        bounds = audit_aligned(figures.aligned, space, guarantee, confidence=confidence, one_for_each_word=shared_draws)
        if not bounds:
            untested = "a promise of this kind, or so few comparable words, cannot be tested on a text alone"
    return AuditReport(
        subject="a privatized text beside its original",
        guarantee=guarantee,
        bounds=tuple(bounds),
        document_words=figures.longest_record,
        not_verified="a text alone does not show the table it was drawn from; audit the mechanism for that",
        deniability=observed_deniability(figures.aligned.before, figures.aligned.after, space),
        texts=figures,
        untested=untested,
    )
