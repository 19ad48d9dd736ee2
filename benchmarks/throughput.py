"""What throughput is measured with: text whose words are as frequent as those of English, and a loop to compare with.

The naive loop is what research code does: look the word up, take its row of probabilities, ``numpy.random.choice(p=row)``.
"""

from __future__ import annotations

import re

import numpy as np

import sfumato

NAIVE_TOKENS = 400


def text_like_english(words: tuple[str, ...], tokens: int) -> list[str]:
    """Return records whose words follow Zipf's law over the vocabulary's order, with case and punctuation."""
    rng = np.random.default_rng(0)
    chances = 1.0 / (np.arange(len(words)) + 10)
    chosen = rng.choice(len(words), tokens, p=chances / chances.sum())
    sentences, size = [], 20
    for start in range(0, tokens, size):
        sentence = " ".join(words[i] for i in chosen[start : start + size])
        sentences.append(sentence.capitalize().replace(" and ", ", and ") + ".")
    return sentences


def naive(mechanism: sfumato.Mechanism, texts: list[str]) -> int:
    """Replace word by word; return how many."""
    space, rng, done = mechanism.space, np.random.default_rng(0), 0
    rows: dict[str, np.ndarray] = {}
    for text in texts:
        out = []
        for token in re.findall(r"\w+|\W+", text):
            word = token.lower()
            if word in space.index:
                if word not in rows:
                    rows[word] = mechanism.row(word).probabilities
                out.append(space.words[rng.choice(len(space), p=rows[word])])
                done += 1
            else:
                out.append(token)
        "".join(out)
    return done
