"""Attacks: functions from data to scores.  They know no mechanism, so they can be turned on anything."""

from sfumato.audit.attacks.attributes import (
    AttributeInference,
    Reidentification,
    attribute_inference,
    reidentification,
    word_attribute_inference,
)
from sfumato.audit.attacks.bayes import BayesAttack, Rows, SuccessOfDraws, bayes_attack, success_of_draws
from sfumato.audit.attacks.canary import Exposure, all_strings, exposure, insert, mean_without_leak
from sfumato.audit.attacks.inversion import bags, nearest_inversion, recovered_words, train_inverter
from sfumato.audit.attacks.masked import MaskedInference, MaskedModel, NgramModel, masked_inference
from sfumato.audit.attacks.membership import Answers, likelihood_ratio, shadow_attack
from sfumato.audit.attacks.scores import Separation, Share, separation

__all__ = [
    "Answers",
    "AttributeInference",
    "BayesAttack",
    "Exposure",
    "MaskedInference",
    "MaskedModel",
    "NgramModel",
    "Reidentification",
    "Rows",
    "Separation",
    "Share",
    "SuccessOfDraws",
    "all_strings",
    "attribute_inference",
    "bags",
    "bayes_attack",
    "exposure",
    "insert",
    "likelihood_ratio",
    "masked_inference",
    "mean_without_leak",
    "nearest_inversion",
    "recovered_words",
    "reidentification",
    "separation",
    "shadow_attack",
    "success_of_draws",
    "train_inverter",
    "word_attribute_inference",
]
