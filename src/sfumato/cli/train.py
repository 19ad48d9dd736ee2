"""``sfumato train``: train a model by a plan that is written down."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.budget import opened_ledger
from sfumato.cli.plan_file import PlanFile, read_plan_file
from sfumato.cli.progress import error_console, is_shown, output_console
from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import RunKey

if TYPE_CHECKING:
    from sfumato.cli.training_run import Prepared
    from sfumato.training.neural.trainer import Progress, Trainer

_COLUMNS = ("step", "steps", "epsilon", "held_out")


def train(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", exists=True, dir_okay=False, help="The plan.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the guarantee and train nothing.")] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Repeatable and NOT secure; for experiments only.", min=0)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a model on users' sentences, privately, by the plan in a TOML file.

    A run that was interrupted goes on when the command is given again; it is charged once.
    """
    from sfumato.cli.training_run import prepare

    file = read_plan_file(plan)
    prepared = prepare(file)
    if dry_run:
        _print(_described(prepared), as_json)
        return
    _require_new_model(file)
    trainer, held_out, save = _trainer(file, prepared, seed)
    run = file.path(file.output.get("run", "run"))

    def work() -> list[Progress]:
        return _work(file, trainer, held_out, run, quiet)

    seen = _charged(file, trainer, work)
    model_path = file.path(file.output.get("model", "model.safetensors"))
    save(model_path)
    from sfumato.training.neural.checkpoint import forget_key

    forget_key(run)
    last = seen[-1].held_out if seen else None
    _print({**_described(prepared), "model": model_path.name, "held_out": last}, as_json)


def _require_new_model(file: PlanFile) -> None:
    path = file.path(file.output.get("model", "model.safetensors"))
    if path.exists():
        raise DataError(f"{path.name} is there already; move it away, or name another model in [output]")


def _trainer(file: PlanFile, prepared: Prepared, seed: int | None) -> tuple[Trainer, Any, Callable[[Path], None]]:
    from sfumato.cli.training_run import model_and_batches
    from sfumato.training.neural import checkpoint, files
    from sfumato.training.neural.data import TrainingData
    from sfumato.training.neural.settings import TrainSettings
    from sfumato.training.neural.trainer import Trainer

    model, batch, held_out, vocabulary = model_and_batches(file, prepared)
    settings = TrainSettings(**{name: value for name, value in file.training.items() if name != "every"})
    run = file.path(file.output.get("run", "run"))
    fresh = RunKey.generate() if seed is None else RunKey.from_seed(seed)
    key = checkpoint.known_key(run) or fresh
    if checkpoint.exists(run) and checkpoint.known_key(run) is None:
        raise DataError(
            f"the run in {run.name}/ was finished, or its key was removed; begin anew in another folder ([output] run)"
        )
    trainer = Trainer(model, TrainingData.of(prepared.sentences, batch), prepared.plan, settings, key)
    if checkpoint.exists(run):
        checkpoint.restore(trainer, run)

    def save(path: Path) -> None:
        files.save_model(path, model, guarantee=trainer.guarantee, plan=prepared.plan, vocabulary=vocabulary)

    return trainer, held_out, save


def _work(file: PlanFile, trainer: Trainer, held_out: Any, run: Path, quiet: bool) -> list[Progress]:
    path = file.path(file.output.get("log", "log.csv"))
    earlier = _rows_until(path, trainer.step)
    console = error_console()
    with path.open("w", newline="", encoding="utf-8") as lines:
        log = csv.DictWriter(lines, _COLUMNS)
        log.writeheader()
        log.writerows(earlier)

        def watch(progress: Progress) -> None:
            log.writerow(progress.to_json())
            lines.flush()
            if not quiet and (is_shown(quiet) or progress.step == progress.steps):
                figure = "" if progress.held_out is None else f", held-out {progress.held_out:.4g}"
                console.print(
                    f"step {progress.step} of {progress.steps}: epsilon {progress.epsilon:.4g} so far{figure}"
                )

        return trainer.run(held_out=held_out, every=int(file.training.get("every", 10)), watch=watch, checkpoint=run)


def _rows_until(path: Path, step: int) -> list[dict[str, Any]]:
    """Return what a run that goes on has in its log up to its checkpoint: later steps are done, and written, again."""
    if step == 0 or not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as lines:
        return [row for row in csv.DictReader(lines) if int(row["step"]) <= step]


def _charged(file: PlanFile, trainer: Trainer, work: Callable[[], list[Progress]]) -> list[Progress]:
    """Charge the whole plan to a budget before the first step; a run that goes on was paid for."""
    if not file.ledger:
        return work()
    from sfumato.ledger import Cost
    from sfumato.release import release

    subject_key = file.ledger.get("subject_key")
    # The name of the charge follows from the secret key: the same run is charged once, and nothing can be read off it.
    name = "training " + hashlib.sha256(b"charge" + trainer.key.secret).hexdigest()[:32]
    # Kept before the charge: were the key lost after it, the charge could not be used any more.
    from sfumato.training.neural.checkpoint import keep

    if trainer.step == 0:
        keep(trainer, file.path(file.output.get("run", "run")))
    address = os.path.expandvars(str(file.ledger["address"]))
    with opened_ledger(address, None if subject_key is None else file.path(subject_key)) as ledger:
        done = release(
            ledger,
            str(file.ledger["subject"]),
            Cost.of(trainer.plan.guarantee()),
            work,
            key=name,
            fingerprint=hashlib.sha256(json.dumps(trainer.plan.to_json(), sort_keys=True).encode()).hexdigest(),
            repeatable=True,
            purpose="training",
        )
    return done.value


def _described(prepared: Prepared) -> dict[str, Any]:
    guarantee = prepared.plan.guarantee()
    return {
        "plan": prepared.plan.to_json(),
        "sentences": prepared.report.to_json(),
        "epsilon": guarantee.to_json().get("epsilon"),
        "guarantee": guarantee.statement(),
    }


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found))
        return
    console = output_console()
    report, plan = found["sentences"], found["plan"]
    console.print(f"method     {plan['method']}")
    console.print(
        f"sentences  {report['kept']} of {report['sentences']} kept "
        f"({report['dropped_for_user']} dropped: their user has enough, {report['dropped_for_entity']}: an entity has), "
        f"{report['users']} users, {report['entities']} entities, {report['without_entity']} sentences without one"
    )
    if "noise" in plan:
        console.print(
            f"plan       {plan['steps']} steps, rate {plan['rate']:g}, clip {plan['clip']:g}, noise {plan['noise']:.4g}"
        )
    if found["epsilon"] is not None:
        console.print(f"epsilon    {found['epsilon']:.4g} at delta {plan['delta']:g}")
    console.print(f"guarantee  {found['guarantee']}", soft_wrap=True)
    if "model" in found:
        figure = "" if found["held_out"] is None else f", held-out figure {found['held_out']:.4g}"
        console.print(f"model      {found['model']}{figure}")
