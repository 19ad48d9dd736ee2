"""The owner's side: encodes, clips, adds noise, and only then sends.

The promise is computed here, from the plan's own numbers; a server that asks for less noise than the owner allows is
refused before anything is sent.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_count, require_epsilon, require_probability
from sfumato.foundation.errors import DataError, ParameterError, SfumatoError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.latent import extras
from sfumato.latent.encoders.base import Encoder
from sfumato.latent.heads import Head
from sfumato.latent.labels import checked_labels
from sfumato.latent.release import release, stated
from sfumato.latent.service.terms import Terms
from sfumato.latent.vectors import clip, paired
from sfumato.space.cache import cache_folder

_TRIES = 6
_DIGITS = 6
"""Significant digits of a number that is sent: rounding what was released costs nothing."""


class ServerError(SfumatoError):
    """The server cannot be reached, or does not do what was asked."""


class Payment(Protocol):
    """Takes what releases cost out of somebody's budget, before they are made; raises where it cannot."""

    def __call__(self, guarantees: Sequence[Guarantee], count: int, key: str | None = None) -> None:
        """Pay for ``count`` records, each released once under each of the guarantees; once for the same ``key``."""
        ...


class LatentClient:
    """Sends noisy vectors to a server, and asks it noisy queries.

    ``epsilon`` (at ``delta``) is the most that one sentence may cost; so is ``label_epsilon`` for its label, which is
    asked for where the server takes labels by randomised response.  ``payment`` is called before any noise is drawn.

    With ``run`` noise follows from that secret key, the place of a batch and the batch itself, so that the same calls can be
    made again after a failure: the same batch gives the same bytes, which are kept and paid for once, and another batch
    gets noise of its own.
    """

    def __init__(
        self,
        url: str,
        *,
        epsilon: float,
        delta: float = 1e-5,
        label_epsilon: float | None = None,
        encoder: Encoder | None = None,
        payment: Payment | None = None,
        source: Source | None = None,
        run: RunKey | None = None,
        token: str | None = None,
        cache: Path | None = None,
        timeout: float = 60.0,
    ) -> None:
        gather(lambda: require_epsilon(epsilon=epsilon), lambda: require_probability(delta=delta))
        if source is not None and run is not None:
            raise ParameterError("noise comes from a source or from a run key, not from both")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # No proxy and no credentials from the environment: vectors go to the server that was named, and nowhere else.
        self._http = extras.httpx().Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)
        self._payment = payment
        self._source = source or SystemSource()
        self._run = run
        self._batches = 0
        self._cache = cache or cache_folder() / "encoders"
        try:
            self.terms = Terms.from_json(self._json(lambda: self._http.get("/terms")))
            self._check_promise(epsilon, delta, label_epsilon)
            self._encoder = encoder
            if encoder is not None and encoder.dimension * (1 + self.terms.pairs) != self.terms.plan.dimension:
                raise DataError(
                    f"this encoder gives {encoder.dimension} numbers for a sentence, the server takes "
                    f"{self.terms.plan.dimension} for a record; use the encoder it publishes"
                )
        except BaseException:
            self._http.close()
            raise

    def _check_promise(self, epsilon: float, delta: float, label_epsilon: float | None) -> None:
        found = self.terms.plan.epsilon(delta)
        if found > epsilon:
            raise ParameterError(
                f"the server's noise gives epsilon {found:.4g} at delta {delta:g}, and you allow {epsilon:g}; "
                "nothing was sent: ask for more noise, or allow more"
            )
        asked = self.terms.label_epsilon
        if label_epsilon is not None and (asked is None or asked > label_epsilon):
            given = "takes labels as they are" if asked is None else f"takes labels with epsilon {asked:g}"
            raise ParameterError(f"the server {given}, and you allow {label_epsilon:g}; nothing was sent")

    @property
    def encoder(self) -> Encoder:
        """The encoder: the owner's own, or the published one, fetched once and checked."""
        if self._encoder is None:
            from sfumato.latent.service import publishing

            described = self.terms.encoder
            if not described:
                raise DataError("the server publishes no encoder; give your own, or send vectors")
            folder = publishing.fetch(described, self._file, self._cache)
            self._encoder = publishing.load(described, folder)
        return self._encoder

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The promise for a sentence, and that for its label where labels are not public."""
        response = self.terms.response
        promises = [self.terms.plan.guarantee, *([] if response is None else [response.guarantee])]
        secure = self._source.secure if self._run is None else self._run.secure
        return tuple(stated(one, secure) for one in promises)

    def send(self, sentences: Sequence[str], labels: Sequence[int], second: Sequence[str] | None = None) -> int:
        """Encode, release and send labelled sentences (or pairs of them); return how many the server has kept."""
        return self.send_vectors(self._encoded(sentences, second), labels)

    def send_vectors(self, vectors: npt.ArrayLike, labels: npt.ArrayLike, *, at_once: int = 256) -> int:
        """Release and send vectors; each batch is paid for, then noised, then sent until it is acknowledged."""
        require_count(at_once=at_once)
        array = np.asarray(vectors)
        given = checked_labels(labels, len(self.terms.classes))
        if len(array) != len(given):
            raise DataError(f"there are {len(array)} vectors and {len(given)} labels")
        kept = 0
        for start in range(0, len(array), at_once):
            some, their = array[start : start + at_once], given[start : start + at_once]
            number, source = self._drawing("send", some, their)
            self._pay(self.guarantees, len(some), number)
            body: dict[str, Any] = {"vectors": self._released(some, source)}
            response = self.terms.response
            body["labels"] = (their if response is None else response.sample(their, source)).tolist()
            # The noise is drawn: from here on the same bytes are sent, however often it takes.
            content = _encoded_json(body)
            answer = self._json(partial(self._put, number, content))
            kept += int(answer["vectors"])
        return kept

    def train(self) -> int:
        """Ask the server to train its head; return on how many vectors."""
        return int(self._json(lambda: self._http.post("/train", timeout=None), tries=1)["vectors"])

    def query(self, sentences: Sequence[str], second: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
        """Encode and release queries; return the probability of each class, one row each."""
        return self.query_vectors(self._encoded(sentences, second))

    def query_vectors(self, vectors: npt.ArrayLike, *, at_once: int = 256) -> npt.NDArray[np.float64]:
        """Release vectors as queries: each is one more release, at the same price as a sentence to train on."""
        require_count(at_once=at_once)
        array = np.asarray(vectors)
        rows = [np.empty((0, len(self.terms.classes)))]
        for start in range(0, len(array), at_once):
            some = array[start : start + at_once]
            number, source = self._drawing("query", some)
            self._pay(self.guarantees[:1], len(some), number)
            content = _encoded_json({"vectors": self._released(some, source)})
            answer = self._json(partial(self._post, "/queries", content))
            rows.append(np.array(answer["probabilities"], dtype=np.float64))
        return np.concatenate(rows)

    def fetch_head(self, path: Path) -> Head:
        """Fetch the server's head into a file: asked at home it needs no noise and costs nothing."""
        content = self._retried(lambda: self._http.get("/head")).content
        path.write_bytes(content)
        return Head.load(path)

    def ask_at_home(
        self, head: Head, sentences: Sequence[str], second: Sequence[str] | None = None
    ) -> npt.NDArray[np.float64]:
        """Ask a fetched head without noise; nothing leaves this machine."""
        plan = self.terms.plan
        return head.probabilities(clip(self._encoded(sentences, second), plan.clip, plan.norm))

    def status(self) -> dict[str, int]:
        """Return how many vectors there are, and on how many the head was trained."""
        return {name: int(value) for name, value in self._json(lambda: self._http.get("/status")).items()}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def _encoded(self, sentences: Sequence[str], second: Sequence[str] | None) -> npt.NDArray[Any]:
        if (second is not None) != self.terms.pairs:
            raise ParameterError(f"the server takes {'pairs of sentences' if self.terms.pairs else 'single sentences'}")
        first = self.encoder.encode(sentences)
        return first if second is None else paired(first, self.encoder.encode(second))

    def _drawing(self, purpose: str, *arrays: npt.NDArray[Any]) -> tuple[int, Source]:
        """Return the number of a batch and where its noise comes from."""
        if self._run is None:
            return secrets.randbits(128), self._source
        content = hashlib.sha256(json.dumps(self.terms.to_json(), sort_keys=True).encode())
        content.update(json.dumps([self._batches, [(one.dtype.str, one.shape) for one in arrays]]).encode())
        for one in arrays:
            content.update(np.ascontiguousarray(one).tobytes())
        self._batches += 1
        label = content.digest()
        drawn = self._run.stream(f"latent {purpose}, number", label).uint64(2).tolist()
        return (drawn[0] << 64) | drawn[1], self._run.stream(f"latent {purpose}, noise", label)

    def _pay(self, guarantees: Sequence[Guarantee], count: int, number: int) -> None:
        if self._payment is not None:
            self._payment(guarantees, count, None if self._run is None else f"{number:032x}")

    def _released(self, vectors: npt.NDArray[Any], source: Source) -> list[list[float]]:
        return [
            [float(f"{number:.{_DIGITS}g}") for number in row]
            for row in release(vectors, self.terms.plan, source).tolist()
        ]

    def _put(self, number: int, content: bytes) -> Any:
        return self._http.put(f"/batches/{number}", content=content, headers={"Content-Type": "application/json"})

    def _post(self, path: str, content: bytes) -> Any:
        return self._http.post(path, content=content, headers={"Content-Type": "application/json"})

    def _file(self, number: int) -> bytes:
        content: bytes = self._retried(lambda: self._http.get(f"/encoder/{number}", timeout=None)).content
        return content

    def _json(self, ask: Callable[[], Any], tries: int = _TRIES) -> dict[str, Any]:
        answer = self._retried(ask, tries)
        try:
            data = answer.json()
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise ServerError("the answer is not of a server of this program; check the address")
        return data

    def _retried(self, ask: Callable[[], Any], tries: int = _TRIES) -> Any:
        """Ask until there is an answer; asking again sends the same bytes, so it is no second release."""
        httpx = extras.httpx()
        for attempt in range(tries):
            try:
                answer = ask()
            except httpx.TransportError as error:
                if attempt == tries - 1:
                    raise ServerError(
                        f"the server cannot be reached ({type(error).__name__}); what it has acknowledged is kept"
                    ) from None
            else:
                if answer.status_code < 500 or answer.status_code == 507 or attempt == tries - 1:
                    return _checked(answer)
            time.sleep(min(0.1 * 2**attempt, 2.0))
        raise AssertionError("the last attempt returns or raises")


def _checked(answer: Any) -> Any:
    if answer.is_success:
        return answer
    try:
        detail = str(answer.json()["detail"])[:500]
    except (ValueError, KeyError, TypeError):
        detail = "no reason was given"
    raise ServerError(f"the server answers {answer.status_code}: {detail}")


def _encoded_json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
