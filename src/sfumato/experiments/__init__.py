"""Published claims, measured: one file for each, run with ``sfumato experiment run``."""

from sfumato.experiments.base import Experiment, Run, experiment, experiments, load_result, run_experiment

__all__ = ["Experiment", "Run", "experiment", "experiments", "load_result", "run_experiment"]
