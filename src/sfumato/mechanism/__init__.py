"""Mechanisms: randomised maps from words to words, each with a guarantee."""
