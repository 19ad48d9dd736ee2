"""``sfumato compile``: a mechanism in a file that every process maps into memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options as shared
from sfumato.cli.progress import CompileProgress
from sfumato.cli.request import Compiled, MechanismRequest
from sfumato.foundation.checks import require_positive
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.policy import Policy
from sfumato.scale import checked_target

SUFFIX = ".sfm"
_GIB = 2**30


def compile_command(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, such as tem.sfm.")],
    epsilon: shared.Epsilon = None,
    neighbour_loss: shared.NeighbourLoss = None,
    attacker_success: shared.AttackerSuccess = None,
    mechanism: shared.MechanismName = "tem",
    tuning: shared.Tuning = None,
    space: shared.SpaceName = "default",
    space_words: shared.SpaceWords = None,
    option: shared.MechanismOption = None,
    allow_unsound: shared.AllowUnsound = False,
    row_memory: Annotated[
        float,
        typer.Option(
            "--rows", metavar="GIB", help="Store rows of the first words until they take so much; others are computed."
        ),
    ] = 1.0,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a file that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Compile a mechanism to a file, for --artifact of other commands.

    It holds the space, the integers of the rows and the guarantee. Its digest, which is printed, stands for all of it.
    """
    from sfumato.mechanism import artifact

    require_positive(rows=row_memory)
    target = checked_target(output, force=force)
    request = MechanismRequest(
        mechanism, epsilon, neighbour_loss, tuning, space, space_words, None, tuple(option or ()), allow_unsound,
        attacker_success=attacker_success,
    )  # fmt: skip
    with CompileProgress(quiet) as progress:
        compiled = request.compile(progress)
        progress.prefix = ""
        progress.say("writing the rows")
        settings = {
            "epsilon": compiled.epsilon,
            "neighbour_loss": compiled.neighbour_loss,
            "options": request.extra_options(),
        }
        artifact.save(
            compiled.mechanism, target, settings=settings, row_bytes=int(row_memory * _GIB), tick=progress.tick
        )
    facts = artifact.describe(target)
    described: dict[str, Any] = {
        "file": str(output),
        "digest": facts.digest,
        "bytes": facts.bytes,
        "mechanism": facts.mechanism,
        "space": facts.space,
        "words": facts.words,
        "stored_rows": facts.stored_rows,
    }
    if as_json:
        typer.echo(json.dumps(described, indent=2))
    elif not quiet:
        typer.echo(
            f"{output}: {facts.mechanism} over {facts.words:,} words, {facts.stored_rows:,} rows stored, "
            f"{facts.bytes / 1e6:,.1f} MB\ndigest {facts.digest}"
        )


def request_from(
    path: Path, digest: str | None, given: MechanismRequest, chosen: Mapping[str, object]
) -> MechanismRequest:
    """Return a request for the mechanism in a file; ``chosen`` are options that its compilation has settled."""
    from sfumato.mechanism import artifact

    refused = [f"--{name.replace('_', '-')}" for name, value in chosen.items() if value]
    if refused:
        raise ParameterError(f"the compiled mechanism has settled {', '.join(refused)}; leave that out, or the file")
    facts = artifact.describe(path)
    if digest is not None and facts.digest != digest:
        raise ParameterError(f"{path} has another digest than --artifact-digest; get the right file")
    tuning = facts.settings.get("options", {}).get("tuning")
    return replace(given, mechanism=facts.mechanism, tuning=tuning, artifact=path)


def options_of(path: Path) -> dict[str, Any]:
    """Return the options that a mechanism in a file was compiled with."""
    from sfumato.mechanism import artifact

    return dict(artifact.describe(path).settings.get("options", {}))


def compiled_in(path: Path, policy: Policy) -> Compiled:
    """Return the mechanism in a file."""
    from sfumato.mechanism import artifact

    mechanism = artifact.load(path)
    settings = artifact.describe(path).settings
    guarantee = mechanism.guarantee
    epsilon = settings.get("epsilon")
    if epsilon is None and isinstance(guarantee, MetricGuarantee):
        epsilon = guarantee.epsilon
    return Compiled(mechanism, mechanism.space, policy, epsilon, settings.get("neighbour_loss"))
