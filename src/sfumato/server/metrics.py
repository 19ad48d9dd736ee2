"""Figures of the service for Prometheus.  Labels are names from the configuration and fixed words, never anything a caller wrote.

Several processes share their figures through files in ``PROMETHEUS_MULTIPROC_DIR``, which the supervisor makes.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
_METHODS = frozenset(("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"))
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Metrics:
    """The figures of one process."""

    def __init__(self) -> None:
        self._shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "sfumato_requests", "Requests that were answered.", ("route", "method", "status"), registry=registry
        )
        self.seconds = Histogram(
            "sfumato_request_seconds", "Time to the end of the answer.", ("route",), buckets=_BUCKETS, registry=registry
        )
        self.running = Gauge(
            "sfumato_requests_running", "Requests being answered.", registry=registry, multiprocess_mode="livesum"
        )
        self.words = Counter("sfumato_words", "Protected words that were drawn.", ("mechanism",), registry=registry)
        self.charges = Counter("sfumato_charges", "Charges to the ledger.", ("outcome",), registry=registry)
        self.upstream = Counter(
            "sfumato_upstream_requests", "Requests to the chat model.", ("outcome",), registry=registry
        )
        self.limited = Counter("sfumato_requests_limited", "Requests beyond a limit.", ("limit",), registry=registry)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, known_method(method), str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return the figures of all processes."""
        if not self._shared:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def known_method(method: str) -> str:
    """Return an HTTP method, which a caller can make up, only where it is a common one."""
    return method if method in _METHODS else OTHER
