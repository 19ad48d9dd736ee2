"""Stage 1: an encoder as something that can be published, fetched and checked.

Only data is published: weights in safetensors files, settings and vocabularies.  A client takes no other kind of file, so
that nothing it fetches can run, and it checks every file against the digest in the terms.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfumato.foundation.errors import DataError, SfumatoError
from sfumato.latent.encoders import (
    BiLstmEncoder,
    Encoder,
    HuggingFaceEncoder,
    ProjectedEncoder,
    Projection,
    SentenceTransformerEncoder,
    WordMeanEncoder,
)
from sfumato.space import Space

_DATA_FILES = (".json", ".txt", ".safetensors", ".model")
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}){0,3}$")
_MOST_FILES = 64
KINDS = ("words", "bilstm", "huggingface", "sentence-transformers")


def describe(
    kind: str,
    *,
    folder: Path | None = None,
    space: str = "default",
    max_tokens: int | None = None,
    pooling: str = "mean",
    projection: Projection | None = None,
) -> dict[str, Any]:
    """Return the description of an encoder: its kind and settings, and its files with their digests.

    >>> describe("words")["space"]["name"]
    'default'
    """
    if kind not in KINDS:
        raise DataError(f"an encoder is one of {', '.join(KINDS)}")
    found: dict[str, Any] = {"kind": kind, "max_tokens": max_tokens, "pooling": pooling, "files": []}
    if kind in ("words", "bilstm"):
        found["space"] = {"name": space, "digest": Space.load(space).digest}
    if kind != "words":
        if folder is None or not folder.is_dir():
            raise DataError("name the folder that holds the encoder's files")
        found["files"] = [_described(path, folder) for path in _data_files(folder)]
    if projection is not None:
        found["projection"] = projection.to_json()
    return found


def publish(description: dict[str, Any], folder: Path | None, target: Path) -> None:
    """Copy the files of a description to where the server hands them out."""
    for file in description["files"]:
        assert folder is not None
        place = target / file["name"]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / file["name"], place)


def load(description: dict[str, Any], folder: Path) -> Encoder:
    """Return the encoder of a description whose files are in a folder; the description may come from a server."""
    try:
        return _loaded(description, folder)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        if isinstance(error, SfumatoError):
            raise
        raise DataError(
            f"the server's description of its encoder cannot be used ({type(error).__name__}); bring your own encoder"
        ) from None


def _loaded(description: dict[str, Any], folder: Path) -> Encoder:
    kind = description.get("kind")
    longest = description.get("max_tokens")
    length: dict[str, Any] = {} if longest is None else {"max_tokens": longest}
    encoder: Encoder
    if kind == "words":
        encoder = WordMeanEncoder(_space(description), **length)
    elif kind == "bilstm":
        encoder = BiLstmEncoder.load(folder, _space(description))
    elif kind == "huggingface":
        encoder = HuggingFaceEncoder(folder, pooling=description.get("pooling", "mean"), **length)
    elif kind == "sentence-transformers":
        encoder = SentenceTransformerEncoder(folder, **length)
    else:
        raise DataError(
            "the server's encoder is of a kind this version does not know; update, or bring your own encoder"
        )
    projection = description.get("projection")
    if projection is not None:
        encoder = ProjectedEncoder(encoder, Projection(projection["centre"], projection["matrix"]))
    return encoder


def fetch(description: dict[str, Any], read: Callable[[int], bytes], cache: Path) -> Path:
    """Return a folder with the files of a description; ``read(i)`` fetches the i-th where it is not there already."""
    files = description.get("files", [])
    if not isinstance(files, list) or len(files) > _MOST_FILES or not all(isinstance(file, dict) for file in files):
        raise DataError("the list of the encoder's files is not one that this client takes; bring your own encoder")
    label = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache / label
    for number, file in enumerate(files):
        name, digest = str(file.get("name")), str(file.get("sha256"))
        if not _allowed(name):
            raise DataError(f"file {number} of the encoder is not of a kind that this client takes; nothing was loaded")
        path = folder / name
        if path.is_file() and _digest(path.read_bytes()) == digest:
            continue
        content = read(number)
        if _digest(content) != digest:
            raise DataError(f"file {number} of the encoder is not what the terms say; try again, or ask the operator")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".part")
        partial.write_bytes(content)
        partial.replace(path)
    return folder


def _space(description: dict[str, Any]) -> Space:
    named = description.get("space", {})
    space = Space.load(str(named.get("name")))
    if space.digest != named.get("digest"):
        raise DataError("the server's words and vectors are another version than those here; update one of the two")
    return space


def _data_files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in found if _allowed(path.relative_to(folder).as_posix())]
    if not any(path.suffix == ".safetensors" for path in files):
        raise DataError("the folder has no .safetensors file; save the encoder's weights in that format")
    if len(files) > _MOST_FILES:
        raise DataError(f"an encoder has at most {_MOST_FILES} files, the folder has {len(files)}; take out the others")
    return files


def _allowed(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.endswith(_DATA_FILES)


def _described(path: Path, folder: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"name": path.relative_to(folder).as_posix(), "bytes": len(content), "sha256": _digest(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
