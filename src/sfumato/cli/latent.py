"""``sfumato latent``: a server that learns from noisy vectors, and its owners' client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.budget import KEY_VARIABLE, opened_ledger
from sfumato.foundation.errors import DataError, ParameterError

if TYPE_CHECKING:
    from sfumato.latent.encoders import Encoder, Projection
    from sfumato.latent.service.client import LatentClient
    from sfumato.latent.service.terms import Terms

app = typer.Typer(
    help="Learn from noisy vectors: the server never sees text.", pretty_exceptions_enable=False, no_args_is_help=True
)
_TASK, _BUDGET, _NETWORK = "The task", "Budget", "Network"

_REQUEST_SECONDS = 120.0
"""How long the head of a request may take to come; its body may take twice as long."""
Url = Annotated[str, typer.Argument(metavar="URL", help="The server, such as http://127.0.0.1:8765.")]
Allowed = Annotated[
    float, typer.Option("--epsilon", "-e", metavar="NUMBER", help="The most that one sentence may cost, checked here.")
]
Delta = Annotated[float, typer.Option("--delta", metavar="NUMBER", help="Where epsilon is counted.")]
AllowedLabel = Annotated[
    float | None,
    typer.Option("--label-epsilon", metavar="NUMBER", help="The most that one label may cost; public where left out."),
]
TextColumn = Annotated[str, typer.Option("--text", "-c", metavar="COLUMN", help="The column of sentences.")]
SecondColumn = Annotated[
    str | None, typer.Option("--second", metavar="COLUMN", help="The column of second sentences, for pairs.")
]
LedgerAddress = Annotated[
    str | None,
    typer.Option("--ledger", metavar="URL", help="Charge every sentence before it is sent.", rich_help_panel=_BUDGET),
]
Subject = Annotated[
    str | None, typer.Option("--subject", metavar="NAME", help="Whose budget pays.", rich_help_panel=_BUDGET)
]
SubjectKey = Annotated[
    Path | None,
    typer.Option(
        "--subject-key", metavar="FILE", envvar=KEY_VARIABLE, help="The ledger's secret.", rich_help_panel=_BUDGET
    ),
]
RunKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--run-key",
        metavar="FILE",
        help="A secret file, made where it does not exist: with it the same command can be run again after a failure; what "
        "was sent is sent as the same bytes, kept once and charged once.",
        rich_help_panel=_BUDGET,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="What the server asks for, in a file.", rich_help_panel=_NETWORK),
]


@app.command("serve")
def serve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds the task; made where it does not exist.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            metavar="NAME",
            help="words:SPACE, a folder with a model, or sentence-transformers:FOLDER.",
            rich_help_panel=_TASK,
        ),
    ] = None,
    pooling: Annotated[
        str,
        typer.Option("--pooling", metavar="NAME", help="Of a model's tokens: mean or cls.", rich_help_panel=_TASK),
    ] = "mean",
    classes: Annotated[
        str | None, typer.Option("--classes", metavar="A,B", help="Names of the classes.", rich_help_panel=_TASK)
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", metavar="NUMBER", help="For one sentence.", rich_help_panel=_TASK),
    ] = None,
    delta: Annotated[
        float, typer.Option("--delta", metavar="NUMBER", help="Where epsilon is counted.", rich_help_panel=_TASK)
    ] = 1e-5,
    clip: Annotated[
        float | None,
        typer.Option("--clip", metavar="NUMBER", help="Clipping norm of a vector.", rich_help_panel=_TASK),
    ] = None,
    clip_from: Annotated[
        Path | None,
        typer.Option(
            "--clip-from",
            metavar="FILE",
            help="PUBLIC sentences, one on each line: clip to their median norm.",
            rich_help_panel=_TASK,
        ),
    ] = None,
    directions_from: Annotated[
        Path | None,
        typer.Option(
            "--directions-from",
            metavar="FILE",
            help="PUBLIC sentences with columns text and label: keep only the directions that tell the classes apart.",
            rich_help_panel=_TASK,
        ),
    ] = None,
    distribution: Annotated[
        str,
        typer.Option("--noise", metavar="NAME", help="gaussian, laplace or discrete.", rich_help_panel=_TASK),
    ] = "gaussian",
    pairs: Annotated[bool, typer.Option("--pairs", help="A record is two sentences.", rich_help_panel=_TASK)] = False,
    label_epsilon: Annotated[
        float | None,
        typer.Option(
            "--label-epsilon",
            metavar="NUMBER",
            help="Take labels by randomised response; as they are where left out.",
            rich_help_panel=_TASK,
        ),
    ] = None,
    head: Annotated[
        str, typer.Option("--head", metavar="NAME", help="linear or mlp.", rich_help_panel=_TASK)
    ] = "linear",
    learning: Annotated[
        str,
        typer.Option("--learning", metavar="NAME", help="once, or online as vectors arrive.", rich_help_panel=_TASK),
    ] = "once",
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", metavar="N", min=1, help="Cut sentences off there.", rich_help_panel=_TASK),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Listen there.", rich_help_panel=_NETWORK)
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes a free one.", rich_help_panel=_NETWORK)
    ] = 8765,
    token_file: TokenFile = None,
) -> None:
    """Publish an encoder, take noisy vectors, train a head on them and answer noisy queries.

    The options of the task are given when its folder is made; later runs go on with it.
    """
    from sfumato.latent.service.running import serve as run
    from sfumato.latent.service.trainer import TERMS, read_terms
    from sfumato.server.extras import require_server_extra

    require_server_extra()
    if not (folder / TERMS).exists():
        _prepare(
            folder, encoder, classes, epsilon, _PublicFiles(clip, clip_from, directions_from),
            {"max_tokens": max_tokens, "pooling": pooling},
            {"delta": delta, "distribution": distribution},
            {"pairs": pairs, "label_epsilon": label_epsilon, "head": head, "learning": learning},
        )  # fmt: skip
    elif any(given is not None for given in (encoder, classes, epsilon, clip, clip_from, directions_from)):
        raise ParameterError("this folder holds a task already: leave its options out to go on, or name another folder")
    terms = read_terms(folder)
    typer.echo(terms.plan.guarantee.statement())
    from sfumato.server.protocol import punctual

    run(
        folder, host=host, port=port, token=_token(token_file), ready=lambda url: typer.echo(f"listening on {url}"),
        http=punctual(_REQUEST_SECONDS),
    )  # fmt: skip


@app.command("train")
def train(
    url: Url,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, JSON lines or Parquet, with a header.")],
    text: TextColumn,
    label: Annotated[str, typer.Option("--label", metavar="COLUMN", help="The column of labels: names of classes.")],
    epsilon: Allowed,
    delta: Delta = 1e-5,
    label_epsilon: AllowedLabel = None,
    second: SecondColumn = None,
    send_only: Annotated[bool, typer.Option("--send-only", help="Do not ask for training yet.")] = False,
    ledger: LedgerAddress = None,
    subject: Subject = None,
    subject_key: SubjectKey = None,
    run_key: RunKeyFile = None,
    token_file: TokenFile = None,
) -> None:
    """Encode sentences here, send noisy vectors with their labels, and ask the server to train on them."""
    with _client(url, epsilon, delta, label_epsilon, ledger, subject, subject_key, run_key, token_file) as client:
        places = {name: place for place, name in enumerate(client.terms.classes)}
        kept = 0
        for columns, first in _columns(file, [text, *([second] if second else []), label]):
            labels = _places(columns[-1], places, first)
            kept += client.send(columns[0], labels, columns[1] if second else None)
        for guarantee in client.guarantees:
            typer.echo(guarantee.statement())
        typer.echo(f"{kept:,} noisy vectors sent" + ("" if send_only else f"; trained on {client.train():,}"))


@app.command("query")
def query(
    url: Url,
    epsilon: Allowed,
    sentences: Annotated[
        list[str] | None, typer.Argument(metavar="[SENTENCE]...", help="Sentences to classify.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--input", "-i", metavar="FILE", help="A file of sentences.")] = None,
    text: TextColumn = "text",
    second: SecondColumn = None,
    delta: Delta = 1e-5,
    at_home: Annotated[
        bool, typer.Option("--at-home", help="Fetch the head and ask it here: no noise, no cost, nothing is sent.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    ledger: LedgerAddress = None,
    subject: Subject = None,
    subject_key: SubjectKey = None,
    run_key: RunKeyFile = None,
    token_file: TokenFile = None,
) -> None:
    """Print a line for each sentence: its class and the probability of it. The sentences are not printed."""
    if bool(sentences) == (file is not None):
        raise ParameterError("give either sentences or --input FILE")
    with _client(url, epsilon, delta, None, ledger, subject, subject_key, run_key, token_file) as client:
        batches: Any = [([list(sentences or [])], 0)]
        if file is not None:
            batches = _columns(file, [text, *([second] if second else [])])
        for columns, _ in batches:
            pair = columns[1] if len(columns) > 1 else None
            found = _ask_at_home(client, columns[0], pair) if at_home else client.query(columns[0], pair)
            for row in found:
                best = int(row.argmax())
                name, chance = client.terms.classes[best], float(row[best])
                typer.echo(
                    json.dumps({"class": name, "probability": round(chance, 6)}) if as_json else f"{name}\t{chance:.3f}"
                )


@dataclass(frozen=True)
class _PublicFiles:
    """Where the clipping norm and the directions come from: never from the owners' sentences."""

    clip: float | None
    clip_from: Path | None
    directions_from: Path | None

    def projection(self, encoder: Encoder, classes: tuple[str, ...]) -> tuple[Projection | None, Any]:
        """Return the map onto the directions that tell the classes apart, and the public vectors it gives."""
        from sfumato.latent.encoders import Projection

        if self.directions_from is None:
            return None, None
        places = {name: place for place, name in enumerate(classes)}
        sentences: list[str] = []
        labels: list[int] = []
        for (some, theirs), first in _columns(self.directions_from, ["text", "label"]):
            sentences += some
            labels += _places(theirs, places, first)
        vectors = encoder.encode(sentences)
        found = Projection.discriminating(vectors, labels, classes=len(classes))
        return found, found.apply(vectors)

    def norm(self, encoder: Encoder, projected: Any, *, pairs: bool, norm: str) -> float:
        """Return the clipping norm: the one that was given, or the median of public vectors."""
        from sfumato.latent.vectors import choose_clip, paired

        if self.clip is not None:
            return self.clip
        public = projected
        if self.clip_from is not None:
            lines = [line for line in self.clip_from.read_text(encoding="utf-8").splitlines() if line.strip()]
            public = encoder.encode(lines)
        return choose_clip(paired(public, public) if pairs else public, norm=norm)


def _prepare(
    folder: Path,
    encoder: str | None,
    classes: str | None,
    epsilon: float | None,
    public: _PublicFiles,
    reading: dict[str, Any],
    noise: dict[str, Any],
    task: dict[str, Any],
) -> None:
    """Make the folder of a new task."""
    from sfumato.latent.calibration import release_once
    from sfumato.latent.service import publishing
    from sfumato.latent.service.terms import Terms
    from sfumato.latent.service.trainer import ENCODER, Trainer

    sources = (public.clip, public.clip_from, public.directions_from)
    if encoder is None or classes is None or epsilon is None or not any(one is not None for one in sources):
        raise ParameterError(
            "a new task needs --encoder, --classes, --epsilon, and --clip or --clip-from (public sentences, one a line)"
        )
    if public.clip is not None and public.clip_from is not None:
        raise ParameterError("give --clip or --clip-from, not both")
    if public.directions_from is not None and task["pairs"]:
        raise ParameterError("--directions-from is for single sentences; leave it out for pairs")
    kind, source, space = _encoder_kind(encoder)
    names = tuple(name.strip() for name in classes.split(","))
    described = publishing.describe(kind, folder=source, space=space, **reading)
    publishing.publish(described, source, folder / ENCODER)
    loaded = publishing.load(described, folder / ENCODER)
    projection, projected = public.projection(loaded, names)
    if projection is not None:
        described["projection"] = projection.to_json()
        loaded = publishing.load(described, folder / ENCODER)
    norm = "l1" if noise["distribution"] == "laplace" else "l2"
    clip = public.norm(loaded, projected, pairs=task["pairs"], norm=norm)
    plan = release_once(epsilon=epsilon, clip=clip, dimension=loaded.dimension * (1 + task["pairs"]), **noise)
    terms: Terms = Terms(plan=plan, classes=names, encoder=described, **task)
    Trainer.prepare(folder, terms)


def _encoder_kind(encoder: str) -> tuple[str, Path | None, str]:
    """Return the kind of an encoder, its folder, and the name of its space."""
    kind, colon, space = encoder.partition(":")
    if kind == "words":
        return "words", None, space if colon else "default"
    bringing = kind == "sentence-transformers" and bool(colon)
    folder = Path(space if bringing else encoder)
    if not folder.is_dir():
        raise ParameterError(
            "--encoder is words, words:SPACE, a folder with a model, or sentence-transformers: and a folder"
        )
    if bringing:
        return "sentence-transformers", folder, "default"
    if (folder / "bilstm.json").exists():
        return "bilstm", folder, "default"
    return "huggingface", folder, "default"


@contextmanager
def _client(
    url: str,
    epsilon: float,
    delta: float,
    label_epsilon: float | None,
    ledger: str | None,
    subject: str | None,
    subject_key: Path | None,
    run_key: Path | None,
    token_file: Path | None,
) -> Iterator[LatentClient]:
    """Open the client, and the ledger where one is named."""
    from sfumato.latent.service.client import LatentClient
    from sfumato.scale.keyfile import KeyFile

    if (ledger is None) != (subject is None):
        raise ParameterError("--ledger and --subject go together")
    with ExitStack() as stack:
        payment = None
        if ledger is not None and subject is not None:
            from sfumato.release import VectorPayment

            payment = VectorPayment(stack.enter_context(opened_ledger(ledger, subject_key)), subject)
        yield stack.enter_context(
            LatentClient(
                url,
                epsilon=epsilon,
                delta=delta,
                label_epsilon=label_epsilon,
                payment=payment,
                run=None if run_key is None else KeyFile.open(run_key).key,
                token=_token(token_file),
            )
        )


def _ask_at_home(client: LatentClient, sentences: list[str], second: list[str] | None) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        head = client.fetch_head(Path(folder) / "head.safetensors")
    return client.ask_at_home(head, sentences, second)


def _columns(file: Path, names: list[str]) -> Iterator[tuple[list[list[str]], int]]:
    """Read some columns of a file, batch by batch, with the number of the first record of each."""
    from sfumato.scale import FORMATS, ReadOptions, format_of, open_reader

    kind = format_of(file.name)
    if kind is None or not file.name.lower().endswith(tuple(f".{name}" for name in FORMATS)):
        raise ParameterError(f"the name of the file must end with one of {', '.join(FORMATS)}, uncompressed")
    with file.open("rb") as stream:
        reader = open_reader(stream, kind, ReadOptions(columns=tuple(names)))
        for records in reader.batches():
            columns = records.texts()
            for name, values in zip(names, columns, strict=True):
                if None in values:
                    missing = records.first + values.index(None)
                    raise DataError(f"record {missing} has nothing in column {name!r}; fill it or leave the record out")
            yield [[str(value) for value in values] for values in columns], records.first


def _places(labels: list[str], places: dict[str, int], first: int) -> list[int]:
    unknown = [number for number, label in enumerate(labels) if label.strip() not in places]
    if unknown:
        raise DataError(
            f"the label of record {first + unknown[0]} is none of {', '.join(places)} ({len(unknown)} in this batch)"
        )
    return [places[label.strip()] for label in labels]


def _token(file: Path | None) -> str | None:
    return None if file is None else file.read_text(encoding="utf-8").strip()
