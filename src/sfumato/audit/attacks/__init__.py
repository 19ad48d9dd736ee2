"""Attacks: functions from data to scores.  They know no mechanism, so they can be turned on anything."""

from sfumato.audit.attacks.bayes import BayesAttack, Rows, SuccessOfDraws, bayes_attack, success_of_draws

__all__ = ["BayesAttack", "Rows", "SuccessOfDraws", "bayes_attack", "success_of_draws"]
