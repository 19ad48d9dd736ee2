"""Compiled mechanisms in a file: written once, mapped into memory by every process that draws from it.

An artifact holds the space, the guarantee, what fixes the rows, and the rows themselves as integers.  For a kernel
(``tem``, ``santext``, ``santext-plus``) the rows are those of the first words, in vocabulary order and up to a memory
limit; rows beyond it are compiled as they occur, to the same integers.  Which rows are stored depends on public things
only.  Every other table is stored whole.

>>> import tempfile, sfumato
>>> folder = tempfile.TemporaryDirectory()
>>> space = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
>>> path = Path(folder.name) / "tem.sfm"
>>> digest = save(sfumato.compile("tem", space, epsilon=1.0), path)
>>> mechanism = load(path, digest)
>>> mechanism.guarantee.epsilon, mechanism.space.words
(1.0, ('cold', 'cool', 'warm', 'hot'))
>>> del mechanism; folder.cleanup()
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import Guarantee, guarantee_from_json
from sfumato.mechanism.base import Mechanism, TableMechanism
from sfumato.mechanism.container import AnyArray, Container, ContainerWriter, open_container, read_header
from sfumato.mechanism.exponential import ExponentialMechanism
from sfumato.mechanism.kernel import Certificate, Ground
from sfumato.mechanism.marks import BITS as MARK_BITS
from sfumato.mechanism.rowstore import BLOCK, HEAD_BITS, MappedRowStore, Rows, pack_rows
from sfumato.mechanism.santext_plus import SanTextPlus
from sfumato.mechanism.table import StoredTable
from sfumato.mechanism.tuning import Tuned
from sfumato.space import Space
from sfumato.space.metric import IndexArray
from sfumato.space.statistics import SpaceStatistics

ROW_BYTES = 2**30
"""Rows are stored until they take so much."""
_ROWS_AT_ONCE = 64
_FILE_LIMIT = 2**33
_LAYOUT = [2, HEAD_BITS, BLOCK, MARK_BITS]
"""A file with another one is not read; the first number stands for what rows hold."""
_STREAMED = ("head_sums", "head_cells", "tail_sums", "marks")


@dataclass(frozen=True)
class ArtifactFacts:
    """What a file says about itself."""

    digest: str
    """Stands for the whole content; compare it with the one you were told."""
    bytes: int
    mechanism: str
    guarantee: Guarantee
    space: str
    words: int
    space_digest: str
    stored_rows: int
    settings: dict[str, Any] = field(repr=False)
    """As they were given to :func:`save`."""


def save(
    mechanism: Mechanism,
    path: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    row_bytes: int = ROW_BYTES,
    tick: Callable[[int], None] | None = None,
) -> str:
    """Write a table mechanism to a file and return its digest.

    ``settings`` is kept beside it, as plain data; ``row_bytes`` limits the rows that are stored, and ``tick`` is told
    about rows done.  A file of that name is replaced once the new one is whole.
    """
    require_count(row_bytes=row_bytes)
    if not isinstance(mechanism, TableMechanism):
        raise ParameterError(
            "only mechanisms with a table can be compiled to a file, and this one draws noise for every word; use it "
            "directly, or compile 'tem', which has the same kind of promise"
        )
    space = mechanism.space
    if space.metric_function is not None:
        raise ParameterError(
            "a space with a metric of your own cannot be stored: its distances are a program, not data"
        )
    facts: dict[str, Any] = {
        "mechanism": mechanism.guarantee.mechanism,
        "guarantee": mechanism.guarantee.to_json(),
        "space": _space_facts(space),
        "settings": dict(settings or {}),
        "layout": _LAYOUT,
    }
    arrays = _space_arrays(space) | {"inputs": mechanism.inputs, "outputs": mechanism.outputs}
    with ContainerWriter(Path(path)) as writer:
        if isinstance(mechanism, ExponentialMechanism):
            more, described = _kernel(mechanism)
            # Short rows are compiled faster than they would be read and checked.
            arrays |= more | ({} if mechanism.has_short_rows else _stream_rows(mechanism, writer, row_bytes, tick))
            facts["kernel"] = described
        else:
            arrays |= _whole_table(mechanism, tick)
        return writer.finish(facts, arrays)


def load(path: str | Path, digest: str | None = None) -> TableMechanism:
    """Return the mechanism of a file; ``digest`` is what :func:`save` returned, where the file may have been exchanged.

    Nothing but the header and the small arrays is read now; rows are checked when a word first needs them.
    """
    container = open_container(Path(path), digest)
    facts, sections = container.facts, container.sections
    if facts["layout"] != _LAYOUT:
        raise DataError(f"{path} was written by a version with another layout of rows; write it again: sfumato compile")
    space = _restored_space(facts["space"], sections)
    guarantee = guarantee_from_json(facts["guarantee"])
    mechanism: TableMechanism
    if "kernel" in facts:
        mechanism = _restored_kernel(container, space, guarantee)
    else:
        mechanism = StoredTable(
            space,
            _positions(sections["inputs"]),
            _positions(sections["outputs"]),
            guarantee,
            sections["cells"],
            sections["weights"],
            sections.get("group_numbers"),
        )
    mechanism.origin = (str(Path(path).resolve()), container.digest)
    return mechanism


def describe(path: str | Path) -> ArtifactFacts:
    """Return what a file says about itself, from its header alone."""
    facts, digest, _, size = read_header(Path(path))
    space = facts["space"]
    rows = facts["sections"].get("totals", {"shape": [0]} if "kernel" in facts else facts["sections"]["inputs"])
    stored = rows["shape"][0]
    return ArtifactFacts(
        digest,
        size,
        facts["mechanism"],
        guarantee_from_json(facts["guarantee"]),
        space["name"],
        space["words"],
        space["digest"],
        stored,
        facts["settings"],
    )


def _space_facts(space: Space) -> dict[str, Any]:
    return {
        "name": space.name,
        "metric": space.metric,
        "scale": space.scale,
        "step": space.step,
        "words": len(space),
        "digest": space.digest,
        "triangle_checked": space.triangle_checked,
        "statistics": space.statistics.to_json(),
    }


def _space_arrays(space: Space) -> dict[str, AnyArray]:
    words = "\n".join(space.words).encode("utf-8", "surrogatepass")
    if words.count(b"\n") != len(space) - 1:
        raise ParameterError(
            "a word of the space holds a line break, so the space cannot be stored; leave that word out"
        )
    arrays = {"words": np.frombuffer(words, dtype=np.uint8), "vectors": space.vectors}
    vectors, points = space.distinct
    if vectors is space.vectors or np.array_equal(vectors, space.vectors):
        return arrays
    return arrays | {"distinct": vectors, "points": points}


def _restored_space(facts: Mapping[str, Any], sections: Mapping[str, AnyArray]) -> Space:
    words = tuple(sections["words"].tobytes().decode("utf-8", "surrogatepass").split("\n"))
    vectors = sections["vectors"]
    space = Space(
        words, vectors, facts["metric"], facts["name"], facts["scale"], triangle_checked=facts["triangle_checked"]
    )
    distinct = (
        (sections["distinct"], _positions(sections["points"]))
        if "distinct" in sections
        else (vectors, np.arange(len(words)))
    )
    return space.with_known(facts["digest"], SpaceStatistics(**facts["statistics"]), distinct, facts["step"])


def _kernel(mechanism: ExponentialMechanism) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    tuned = mechanism.tuned
    certificate = tuned.certificate
    described = {
        "gamma": mechanism.ground.gamma,
        "tuning": tuned.tuning,
        "rate": tuned.rate,
        "certificate": [certificate.epsilon, certificate.first, certificate.second],
        "keeps": tuned.keeps,
        "note": tuned.note,
    }
    if isinstance(mechanism, SanTextPlus):
        described["share"] = mechanism.share
    arrays: dict[str, AnyArray] = {"kernel_weights": tuned.weights}
    return arrays if tuned.fill is None else arrays | {"kernel_fill": tuned.fill}, described


def _restored_kernel(container: Container, space: Space, guarantee: Guarantee) -> ExponentialMechanism:
    described, sections = container.facts["kernel"], container.sections
    ground = Ground(space, _positions(sections["inputs"]), _positions(sections["outputs"]), described["gamma"])
    certificate = Certificate(*described["certificate"])
    weights = sections["kernel_weights"]
    tuned = Tuned(
        described["tuning"], described["rate"], weights, certificate, described["keeps"], described["note"],
        sections.get("kernel_fill"),
    )  # fmt: skip
    mechanism: ExponentialMechanism
    if "share" in described:
        mechanism = SanTextPlus(ground, tuned, guarantee, described["share"])  # type: ignore[arg-type]
    else:
        mechanism = ExponentialMechanism(ground, tuned, guarantee)  # type: ignore[arg-type]
    if mechanism.has_short_rows:
        return mechanism
    rows = Rows(
        _slots(len(space), mechanism.inputs[: len(sections["totals"])]),
        **{name: sections[name] for name in ("totals", "norms", "head_starts", "tail_starts", *_STREAMED[:-1])},
        marks=sections["marks"].reshape(-1, BLOCK),
        columns=mechanism.outputs,
    )
    mechanism.draw_from(lambda memory: MappedRowStore(len(space), memory, rows, _RowCheck(container, rows)))
    return mechanism


def _slots(words: int, stored: IndexArray) -> np.ndarray[Any, np.dtype[np.int32]]:
    slots = np.full(words + 1, -1, dtype=np.int32)
    slots[stored] = np.arange(len(stored), dtype=np.int32)
    return slots


def _positions(array: AnyArray) -> IndexArray:
    return np.asarray(array, dtype=np.intp)


def _stream_rows(
    mechanism: TableMechanism, writer: ContainerWriter, row_bytes: int, tick: Callable[[int], None] | None
) -> dict[str, AnyArray]:
    """Write rows, a chunk at a time, until they take so many bytes; return where each begins and the chunks' digests."""
    small: dict[str, list[AnyArray]] = {name: [] for name in ("totals", "norms", "head_counts", "tail_counts")}
    digests: list[AnyArray] = []
    written = 0
    for start in range(0, len(mechanism.inputs), _ROWS_AT_ONCE):
        if written >= row_bytes and start:
            break
        # The first words are mostly the frequent ones.
        rows = pack_rows(mechanism.inputs[start : start + _ROWS_AT_ONCE], mechanism, with_marks=4 * written < row_bytes)
        for name in _STREAMED:
            writer.append(name, getattr(rows, name))
            written += getattr(rows, name).nbytes
        digests.append(_digest_of(rows.head_sums, rows.head_cells, rows.tail_sums, rows.marks))
        small["totals"].append(rows.totals)
        small["norms"].append(rows.norms)
        small["head_counts"].append(np.diff(rows.head_starts))
        small["tail_counts"].append(np.diff(rows.tail_starts))
        if tick:
            tick(len(rows.totals))
    joined = {name: np.concatenate(parts) for name, parts in small.items()}
    return {
        "totals": joined["totals"],
        "norms": joined["norms"],
        "head_starts": np.concatenate([[0], np.cumsum(joined["head_counts"])]).astype(np.int64),
        "tail_starts": np.concatenate([[0], np.cumsum(joined["tail_counts"])]).astype(np.int64),
        "row_digests": np.stack(digests),
    }


def _digest_of(*parts: AnyArray) -> AnyArray:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(np.ascontiguousarray(part).data)
    return np.frombuffer(hasher.digest(), dtype=np.uint8)


class _RowCheck:
    """Compares chunks of rows with their digests, each before it is used for the first time."""

    def __init__(self, container: Container, rows: Rows) -> None:
        self._container = container
        self._rows = rows
        self._right = np.zeros(len(container.sections["row_digests"]), dtype=bool)

    def __call__(self, slots: npt.NDArray[np.int32]) -> None:
        chunks = np.unique(slots // _ROWS_AT_ONCE)
        for chunk in chunks[~self._right[chunks]].tolist():
            last = min((chunk + 1) * _ROWS_AT_ONCE, len(self._rows.totals))
            head, tail = (
                slice(starts[chunk * _ROWS_AT_ONCE], starts[last])
                for starts in (self._rows.head_starts, self._rows.tail_starts)
            )
            rows = self._rows
            found = _digest_of(rows.head_sums[head], rows.head_cells[head], rows.tail_sums[tail], rows.marks[tail])
            if not np.array_equal(found, self._container.sections["row_digests"][chunk]):
                raise DataError(
                    f"{self._container.path} was altered or damaged (rows from {chunk * _ROWS_AT_ONCE + 1} on); write it "
                    "again with: sfumato compile"
                )
            self._right[chunk] = True


def _whole_table(mechanism: TableMechanism, tick: Callable[[int], None] | None) -> dict[str, AnyArray]:
    """Return every row of a table that is not a kernel."""
    inputs = mechanism.inputs
    probe = mechanism.weights(inputs[:1])
    size = len(inputs) * probe.shape[1] * 12
    if size > _FILE_LIMIT:
        raise ParameterError(
            f"the whole table would take {size / 2**30:.0f} GiB; use a part of the space, or compile 'tem'"
        )
    cells, weights = [], []
    for start in range(0, len(inputs), _ROWS_AT_ONCE):
        ids = inputs[start : start + _ROWS_AT_ONCE]
        some = mechanism.cells(ids)
        cells.append(np.empty((0, probe.shape[1])) if some is None else some)
        weights.append(mechanism.weights(ids))
        if tick:
            tick(len(ids))
    arrays: dict[str, AnyArray] = {
        "cells": np.concatenate(cells).astype(np.int32),
        "weights": np.concatenate(weights),
    }
    groups = getattr(mechanism, "group_numbers", None)
    return arrays if groups is None else arrays | {"group_numbers": np.asarray(groups)}
