"""Sfumato as a service: an HTTP interface, a page to try things on, and a proxy in front of a chat model.

Everything here needs the extra ``server``.  What may be asked for is decided by the operator in one TOML file
(:mod:`sfumato.server.configuration`); callers choose by name among what is there.
"""
