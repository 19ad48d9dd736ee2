"""The same run in Flower's simulation engine, all on this machine: python simulate.py FOLDER.

The folder holds the clients' files and gets the model.
"""

from __future__ import annotations

import sys

import federated_app as app
from flwr.app import Context
from flwr.simulation import run_simulation
from threadpoolctl import threadpool_limits

from sfumato.training.federated.client import ClientPart, client_app
from sfumato.training.federated.server import PrivateStrategy, server_app

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
RESOURCES = {
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    "init_args": {"num_cpus": 1, "include_dashboard": False},
}


def part(context: Context) -> ClientPart:
    """Return what the client of a simulated node has."""
    context.node_config["folder"] = FOLDER
    return app.part(context)


def done(finished: PrivateStrategy, context: Context) -> None:
    """Write the model into the folder."""
    context.run_config["folder"] = FOLDER
    app.done(finished, context)


if __name__ == "__main__":
    print(app.PLAN.guarantee().statement(), flush=True)
    # The engine forks while the server's half computes; with threads of a BLAS library that can wait for ever.
    with threadpool_limits(1):
        run_simulation(server_app(app.strategy, done), client_app(part), app.CLIENTS, backend_config=RESOURCES)
