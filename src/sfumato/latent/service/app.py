"""The web half of the server.  No request has a field that text could be put in: bodies hold numbers only."""

from __future__ import annotations

import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from sfumato.foundation.errors import MissingExtraError, SfumatoError
from sfumato.latent.service.store import ReusedBatchError, StoreError, StoreFullError
from sfumato.latent.service.trainer import ENCODER, NotTrainedError, Trainer

try:
    from fastapi import Depends, FastAPI, HTTPException, Path, Request, Response
    from fastapi.concurrency import run_in_threadpool
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
    from starlette.exceptions import HTTPException as AnyHTTPException
except ImportError as error:
    raise MissingExtraError("fastapi", "server") from error

Model = TypeVar("Model", bound="BaseModel")
LOGGER = logging.getLogger("sfumato.latent")
MOST_BYTES = 16 << 20
MOST_VECTORS = 4096
_PROBLEM = "application/problem+json"
_STATUS: tuple[tuple[type[SfumatoError], int], ...] = (
    (ReusedBatchError, 409),
    (NotTrainedError, 409),
    (StoreFullError, 507),
    (StoreError, 500),
)


BatchNumber = Annotated[int, Path(ge=0, lt=2**128, description="A random number that the sender gave to the batch.")]


class _Numbers(BaseModel):
    """A request: numbers, and nothing that is not said here."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Queries(_Numbers):
    """Noisy vectors whose classes are asked for."""

    vectors: Annotated[list[Annotated[list[float], FailFast()]], FailFast()] = Field(
        min_length=1, max_length=MOST_VECTORS
    )


class LabelledVectors(Queries):
    """Noisy vectors to train on; a label is the place of a class in the terms."""

    labels: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FailFast()] = Field(
        min_length=1, max_length=MOST_VECTORS
    )


class Accepted(BaseModel):
    """The batch is on the disk."""

    vectors: int
    new: bool
    """False where the very same batch had been accepted before."""


class Trained(BaseModel):
    """A head was trained."""

    vectors: int


class Answers(BaseModel):
    """The probability of each class, one row for each query."""

    probabilities: list[list[float]]


class State(BaseModel):
    """What has arrived so far."""

    vectors: int
    trained_on: int


def create_app(trainer: Trainer, token: str | None = None) -> FastAPI:
    """Return the application; with ``token``, every request must bear it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        trainer.close()

    async def allowed(request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token is not None and not hmac.compare_digest(given.encode(), token.encode()):
            raise HTTPException(401, "give the server's token")

    app = FastAPI(
        title="Sfumato private representations",
        description="Takes noisy vectors and labels, trains a head on them and answers noisy queries. Never takes text.",
        docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan, dependencies=[Depends(allowed)],
    )  # fmt: skip
    _add_public_routes(app, trainer)
    _add_vector_routes(app, trainer)
    _install_problems(app)
    return app


def _add_public_routes(app: FastAPI, trainer: Trainer) -> None:
    """Stage 1: what is published."""

    @app.get("/terms")
    async def terms() -> dict[str, Any]:
        return trainer.terms.to_json()

    @app.get("/encoder/{number}", response_class=Response)
    async def encoder_file(number: Annotated[int, Path(ge=0, lt=1000)]) -> Response:
        files = trainer.terms.encoder.get("files", [])
        if number >= len(files):
            raise HTTPException(404, "the encoder has no such file")
        content = await run_in_threadpool((trainer.folder / ENCODER / files[number]["name"]).read_bytes)
        return Response(content, media_type="application/octet-stream")

    @app.get("/head", response_class=Response)
    async def head() -> Response:
        return Response(await run_in_threadpool(trainer.head_file), media_type="application/octet-stream")

    @app.get("/status")
    async def status() -> State:
        return State(**trainer.status.__dict__)


def _add_vector_routes(app: FastAPI, trainer: Trainer) -> None:
    """Stages 2 to 4: what owners send and get."""

    @app.put("/batches/{batch}", status_code=201, openapi_extra=_takes(LabelledVectors))
    async def send(request: Request, response: Response, batch: BatchNumber) -> Accepted:
        given = await _read(request, LabelledVectors)
        new = await run_in_threadpool(trainer.accept, batch, given.vectors, given.labels)
        response.status_code = 201 if new else 200
        return Accepted(vectors=len(given.vectors), new=new)

    @app.post("/train")
    async def train() -> Trained:
        return Trained(vectors=await run_in_threadpool(trainer.train))

    @app.post("/queries", openapi_extra=_takes(Queries))
    async def query(request: Request) -> Answers:
        given = await _read(request, Queries)
        found = await run_in_threadpool(trainer.answer, given.vectors)
        return Answers(probabilities=found.tolist())


def _takes(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body that the route reads itself, which is quicker than to have it parsed twice."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def _read(request: Request, model: type[Model]) -> Model:
    """Return the body, read up to its greatest size."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > MOST_BYTES:
            raise HTTPException(413, f"a request has at most {MOST_BYTES} bytes; send smaller batches")
        pieces.append(piece)
    return model.model_validate_json(b"".join(pieces))


def _install_problems(app: FastAPI) -> None:
    """Answer every error as a problem (RFC 9457), with nothing of the request in it."""

    @app.exception_handler(SfumatoError)
    async def _ours(request: Request, error: SfumatoError) -> JSONResponse:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 422)
        return _problem(status, str(error))

    @app.exception_handler(AnyHTTPException)
    async def _http(request: Request, error: AnyHTTPException) -> JSONResponse:
        ours = isinstance(error, HTTPException)
        return _problem(error.status_code, str(error.detail) if ours else "there is no such address or method")

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def _invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, (RequestValidationError, ValidationError))
        return _problem(422, "; ".join(dict.fromkeys(_place(one) for one in error.errors()[:20])))

    @app.exception_handler(Exception)
    async def _defect(request: Request, error: Exception) -> JSONResponse:
        # Only the type: a foreign message may hold part of a request.
        LOGGER.error("defect: %s", type(error).__name__)
        return _problem(500, f"a defect of the server ({type(error).__name__}); please report it")


def _place(error: Any) -> str:
    """Return a validation error by place and reason; a name that the schema does not have is not repeated."""
    unknown = error["type"] == "extra_forbidden"
    place = ".".join(map(str, error["loc"][:-1] if unknown else error["loc"])) or "body"
    return f"{place}: {'a field that is not in the schema' if unknown else error['msg'].partition(':')[0]}"


def _problem(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"type": "about:blank", "status": status, "detail": detail}, status, media_type=_PROBLEM)
