"""Text in to text out on one core, beside a loop that draws each token with numpy's choice.

The naive loop is what research code does: look the word up, take its row of probabilities, ``numpy.random.choice(p=row)``.
Both run in the same process on the same text; only the ratio and the rate per second of processor time are kept.
"""

from __future__ import annotations

import re
import time

import numpy as np
from threadpoolctl import threadpool_limits

import sfumato
from setting import save

TOKENS = 200_000
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


def main() -> None:
    """Measure, print and save."""
    space = sfumato.Space.load()
    mechanism = sfumato.compile("tem", space, epsilon=6.0)
    sanitizer = sfumato.Sanitizer(mechanism)
    texts = text_like_english(space.words, TOKENS)
    few = texts[: NAIVE_TOKENS // 20]
    sanitizer.batch(texts)  # warm: compiles the rows that occur
    naive(mechanism, few)
    with threadpool_limits(1):
        rates = []
        for _ in range(5):
            start = time.process_time()
            protected = sanitizer.batch(texts).counts.protected
            rates.append(protected / (time.process_time() - start))
        start = time.process_time()
        slow = naive(mechanism, few) / (time.process_time() - start)
    figures = {
        "tokens": TOKENS,
        "tokens_per_cpu_second": max(rates),
        "tokens_per_cpu_second_runs": rates,
        "naive_tokens_per_cpu_second": slow,
        "ratio": max(rates) / slow,
    }
    print(f"{max(rates):,.0f} tokens/s, naive loop {slow:,.0f} tokens/s, ratio {figures['ratio']:,.0f}")
    print("saved", save("throughput", figures).name)


if __name__ == "__main__":
    main()
