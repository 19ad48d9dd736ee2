"""No text leaves the client; it checks the promise, pays first, and sends the same bytes again."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("httpx", reason="the extra 'server' is not installed")
pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from latent_service import running, terms
from sfumato.foundation.errors import BudgetError, DataError, ParameterError, SfumatoError
from sfumato.foundation.guarantee import Guarantee
from sfumato.latent.calibration import release_once
from sfumato.latent.encoders import BiLstmEncoder, WordMeanEncoder
from sfumato.latent.encoders.projection import Projection
from sfumato.latent.service import publishing
from sfumato.latent.service.client import LatentClient, ServerError
from sfumato.latent.service.terms import Terms
from sfumato.latent.service.trainer import ENCODER
from sfumato.space import Space

SECRETS = [
    "The clandestine zeppelin landed near Marrakesh",
    "my passphrase is wombat-marmalade-7781",
    "Ödipus küßte Łódź",
]


class Wire:
    """Stands between client and server and keeps every byte that the client sends."""

    def __init__(self, url: str, drop: int = 0) -> None:
        self._target = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.sent = bytearray()
        self.bodies: list[bytes] = []
        self._drop = drop
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, keep: bool) -> None:
        try:
            while data := source.recv(65536):
                if keep:
                    self.sent += data
                elif b"HTTP/1.1 201" in data and self._drop:
                    self._drop -= 1  # the server has kept the batch, and its answer is lost
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def published(tmp_path: Path) -> Iterator[tuple[str, Terms]]:
    """A server that publishes the mean of default word vectors."""
    described = publishing.describe("words")
    plan = release_once(epsilon=4.0, clip=1.0, dimension=Space.load("default").dimension)
    made = terms(plan, encoder=described, label_epsilon=2.0)
    with running(tmp_path / "server", made) as url:
        yield url, made


def forms(word: str) -> list[bytes]:
    """A word as it could stand in a stream."""
    plain = [
        one.encode(code) for one in (word, word.lower(), word.upper()) for code in ("utf-8", "utf-16-le", "utf-32-le")
    ]
    coded = [base64.b64encode(word.encode())[:-4], word.encode().hex().encode(), json.dumps(word)[1:-1].encode()]
    return plain + coded


def test_no_text_leaves_the_client(
    published: tuple[str, Terms], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = published
    wire = Wire(url)
    addresses: list[Any] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, address: Any) -> Any:
        addresses.append(address)
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    with LatentClient(wire.url, epsilon=4.0, cache=tmp_path / "cache") as client:
        client.send(SECRETS * 4, [0, 1, 1] * 4)
        client.train()
        client.query(SECRETS)
    wire.close()
    stream = bytes(wire.sent)
    words = [word for sentence in SECRETS for word in re.findall(r"[^\W\d]{4,}", sentence)]
    assert len(words) > 9
    assert [word for word in words if any(form in stream for form in forms(word))] == []
    # Nothing but numbers: what is in the bodies, and the names of two fields.
    bodies = [part.split(b"PUT ")[0].split(b"POST ")[0].split(b"GET ")[0] for part in stream.split(b"\r\n\r\n")[1:]]
    parsed = [json.loads(body) for body in bodies if body.strip()]
    assert [set(body) for body in parsed] == [{"vectors", "labels"}, {"vectors"}]
    assert all(isinstance(number, float) for body in parsed for row in body["vectors"] for number in row)
    # To nobody else: this server's address, and the test's own wire to it.
    assert {address[1] for address in addresses if isinstance(address, tuple)} <= {
        int(wire.url.rsplit(":", 1)[1]),
        int(url.rsplit(":", 1)[1]),
    }
    # That the test can fail: the words would be found if they were sent.
    assert any(form in SECRETS[0].encode() for form in forms("zeppelin"))


def test_what_is_sent_is_noisy_and_never_the_same_twice(published: tuple[str, Terms], tmp_path: Path) -> None:
    url, made = published
    wire = Wire(url)
    with LatentClient(wire.url, epsilon=4.0, cache=tmp_path / "cache") as client:
        true = client.encoder.encode(SECRETS[:1])[0]
        for _ in range(6):
            client.send(SECRETS[:1], [0])
    wire.close()
    rows = [json.loads(match)["vectors"][0] for match in re.findall(rb'\{"vectors".*?\]\}', bytes(wire.sent))]
    noise = np.array(rows) - true * min(1.0, 1.0 / np.linalg.norm(true))
    assert len({tuple(row) for row in rows}) == 6
    # Sum of squares over the variance is chi-squared with 6 d degrees; six deviations of it.
    degrees = noise.size
    assert abs((noise**2).sum() / made.plan.scale**2 - degrees) < 6 * (2 * degrees) ** 0.5 + 1


def test_a_lost_answer_is_asked_for_again_with_the_same_bytes(published: tuple[str, Terms], tmp_path: Path) -> None:
    url, _ = published
    wire = Wire(url, drop=2)
    paid: list[int] = []
    payment = lambda guarantees, count, key: paid.append(count)  # noqa: E731
    with LatentClient(wire.url, epsilon=4.0, payment=payment, cache=tmp_path / "cache") as client:
        assert client.send(SECRETS, [0, 1, 0]) == 3
        assert client.status()["vectors"] == 3
    wire.close()
    bodies = re.findall(rb'\{"vectors".*?\]\}', bytes(wire.sent))
    assert len(bodies) >= 2
    assert len(set(bodies)) == 1
    assert paid == [3]


def test_less_noise_than_the_owner_allows_is_refused_before_anything_is_sent(published: tuple[str, Terms]) -> None:
    url, _ = published
    with pytest.raises(ParameterError, match=r"gives epsilon 4 at delta 1e-05, and you allow 3\.9; nothing was sent"):
        LatentClient(url, epsilon=3.9)
    with pytest.raises(ParameterError, match="at delta 1e-09"):
        LatentClient(url, epsilon=4.0, delta=1e-9)


def test_nothing_is_sent_that_cannot_be_paid(published: tuple[str, Terms], tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    from sfumato.ledger import Ledger
    from sfumato.release import VectorPayment

    url, made = published
    mu2 = (made.plan.sensitivity / made.plan.scale) ** 2
    with Ledger.open(str(tmp_path / "budgets.db")) as ledger:
        ledger.create("ada", kind="gaussian", limit=f"{4.5 * mu2:.9f}")
        ledger.create("ada", kind="pure", limit=100)
        wire = Wire(url)
        with LatentClient(
            wire.url, epsilon=4.0, payment=VectorPayment(ledger, "ada"), cache=tmp_path / "cache"
        ) as client:
            client.send(SECRETS, [0, 1, 0])
            assert float(ledger.budget("ada", "gaussian").spent) == pytest.approx(3 * mu2, rel=1e-6)
            assert float(ledger.budget("ada", "pure").spent) == pytest.approx(6.0)  # three labels of epsilon 2
            before = len(wire.sent)
            with pytest.raises(BudgetError, match="left"):
                client.query(SECRETS)
            with pytest.raises(BudgetError):
                client.send(SECRETS, [0, 1, 0])
            assert len(wire.sent) == before
            # Both charges of a batch or none.
            assert float(ledger.budget("ada", "pure").spent) == pytest.approx(6.0)
            client.train()
            client.query(SECRETS[:1])
            assert float(ledger.budget("ada", "gaussian").spent) == pytest.approx(4 * mu2, rel=1e-6)
        wire.close()
        assert ledger.verify().passed


def test_a_run_that_is_made_again_sends_the_same_bytes_and_is_paid_once(
    published: tuple[str, Terms], tmp_path: Path
) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    from sfumato.foundation.randomness import RunKey
    from sfumato.ledger import Ledger
    from sfumato.release import VectorPayment

    url, made = published
    run = RunKey.generate()
    vectors = np.random.default_rng(4).normal(size=(4, made.plan.dimension))
    with Ledger.open(str(tmp_path / "budgets.db")) as ledger:
        for kind in ("gaussian", "pure"):
            ledger.create("ada", kind=kind, limit=1000)

        def batches(*parts: np.ndarray) -> list[bytes]:
            wire = Wire(url)
            with LatentClient(wire.url, epsilon=4.0, run=run, payment=VectorPayment(ledger, "ada")) as client:
                for part in parts:
                    client.send_vectors(part, [0] * len(part))
                client.train()
                client.query_vectors(vectors)
                wire.close()
            return re.findall(rb'\{"vectors".*?\]\}', bytes(wire.sent))

        first = batches(vectors[:2], vectors[:2])
        spent = [ledger.budget("ada", kind).spent for kind in ("gaussian", "pure")]
        assert batches(vectors[:2], vectors[:2]) == first
        assert len(set(first)) == 3  # the same vectors in another place of the run have other noise
        assert [ledger.budget("ada", kind).spent for kind in ("gaussian", "pure")] == spent
        # Another text in the same place has noise of its own: the difference does not cancel it.
        other = batches(vectors[:2] + 1e-9, vectors[:2])
        gap = np.array(json.loads(other[0])["vectors"]) - np.array(json.loads(first[0])["vectors"])
        assert gap.std() > made.plan.scale
        assert ledger.budget("ada", "gaussian").spent > spent[0]
    with LatentClient(url, epsilon=4.0, run=run) as client:
        assert client.status()["vectors"] == 6
        assert client.guarantees[0].secure
    with pytest.raises(ParameterError, match="not from both"):
        LatentClient(url, epsilon=4.0, run=run, source=run.record(0))


def test_a_predictable_source_is_told_and_cannot_be_paid(published: tuple[str, Terms], tmp_path: Path) -> None:
    from sfumato.foundation.randomness import RunKey

    url, _ = published
    with LatentClient(url, epsilon=4.0, source=RunKey.from_seed(1).record(0)) as client:
        assert not any(guarantee.secure for guarantee in client.guarantees)
        assert all(isinstance(guarantee, Guarantee) for guarantee in client.guarantees)


def test_the_published_encoder_is_fetched_once_and_checked(tmp_path: Path) -> None:
    space = Space.load("default")
    BiLstmEncoder(space, hidden=4).save(tmp_path / "model")
    (tmp_path / "model" / "notes.py").write_text("print('never published')")
    described = publishing.describe("bilstm", folder=tmp_path / "model")
    assert [file["name"] for file in described["files"]] == ["bilstm.json", "bilstm.safetensors"]
    publishing.publish(described, tmp_path / "model", tmp_path / "server" / ENCODER)
    made = terms(release_once(epsilon=4.0, clip=1.0, dimension=8), encoder=described)
    own = BiLstmEncoder.load(tmp_path / "model", space).encode(SECRETS)
    with running(tmp_path / "server", made) as url:
        with LatentClient(url, epsilon=4.0, cache=tmp_path / "cache") as client:
            assert (client.encoder.encode(SECRETS) == own).all()
        weights = tmp_path / "server" / ENCODER / "bilstm.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"x")
        with LatentClient(url, epsilon=4.0, cache=tmp_path / "cache") as client:
            assert (client.encoder.encode(SECRETS) == own).all()  # from the cache
        with LatentClient(url, epsilon=4.0, cache=tmp_path / "other") as client:
            with pytest.raises(DataError, match="not what the terms say"):
                client.send(SECRETS, [0, 1, 0])
            assert client.status()["vectors"] == 0


@pytest.mark.parametrize(
    "name",
    ["../../outside.json", "/etc/model.json", "model.pkl", "run.py", "a/../b.json", "model.json/", ".hidden.json"],
)
def test_a_server_cannot_make_a_client_write_or_load_other_files(name: str, tmp_path: Path) -> None:
    described = {"kind": "huggingface", "files": [{"name": name, "sha256": "0"}]}
    with pytest.raises(DataError, match="not of a kind"):
        publishing.fetch(described, lambda number: b"", tmp_path)
    assert list(tmp_path.rglob("*")) == []


def test_a_projection_is_published_with_its_encoder() -> None:
    space = Space.load("default")
    projection = Projection(np.zeros(space.dimension), np.eye(space.dimension)[:, :3])
    described = json.loads(json.dumps(publishing.describe("words", projection=projection)))
    encoder = publishing.load(described, Path())
    assert encoder.dimension == 3
    assert encoder.encode(SECRETS) == pytest.approx(WordMeanEncoder(space).encode(SECRETS)[:, :3], abs=1e-5)
    with pytest.raises(DataError, match="another version"):
        publishing.load({**described, "space": {"name": "default", "digest": "0"}}, Path())
    with pytest.raises(DataError, match="does not know"):
        publishing.load({"kind": "oracle"}, Path())
    for wrong in (
        {"projection": 3},
        {"projection": {"centre": ["x"], "matrix": []}},
        {"space": 3},
        {"max_tokens": "x"},
    ):
        with pytest.raises(SfumatoError):
            publishing.load({**described, **wrong}, Path())
    for files in (3, [3], [{}] * 100):
        with pytest.raises(DataError, match="this client takes"):
            publishing.fetch({"kind": "words", "files": files}, lambda number: b"", Path())


def test_something_else_at_the_address_is_recognised(tmp_path: Path) -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    address = closed.getsockname()[1]
    closed.close()
    with pytest.raises(ServerError, match="cannot be reached"):
        LatentClient(f"http://127.0.0.1:{address}", epsilon=1.0)


def test_pairs_and_wrong_encoders(tmp_path: Path) -> None:
    described = publishing.describe("words")
    size = Space.load("default").dimension
    made = terms(release_once(epsilon=4.0, clip=1.0, dimension=2 * size), encoder=described, pairs=True)
    with running(tmp_path, made) as url:
        with LatentClient(url, epsilon=4.0) as client:
            with pytest.raises(ParameterError, match="takes pairs"):
                client.send(SECRETS, [0, 1, 0])
            assert client.send(SECRETS, [0, 1, 0], second=SECRETS[::-1]) == 3
            with pytest.raises(DataError, match="3 vectors and 1 labels"):
                client.send(SECRETS, [0], second=SECRETS)
        small = WordMeanEncoder(Space.from_arrays(["a", "b"], np.eye(2)))
        with pytest.raises(DataError, match="gives 2 numbers"):
            LatentClient(url, epsilon=4.0, encoder=small)
