"""One TOML file, read at the start; everything that is wrong with it is said at once.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = Path(folder.name) / "sfumato.toml"
>>> _ = path.write_text('[server]\\nworkers = 0\\n[mechanisms.everyday]\\nalgorithm = "temm"\\nepsilon = 6\\n')
>>> read(path)
Traceback (most recent call last):
    ...
sfumato.server.configuration.ConfigurationError: 3 problems in sfumato.toml: server.workers: Input should be greater \
than or equal to 1; mechanisms.everyday.algorithm: there is no mechanism 'temm'; choose one of ...; keys: nobody may do \
anything; make a key with 'sfumato serve --new-key NAME', or set [anonymous] scopes
>>> folder.cleanup()
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from sfumato.foundation.errors import ParameterError, SfumatoError
from sfumato.foundation.registry import entry
from sfumato.mechanism.artifact import describe
from sfumato.mechanism.tuning import TUNINGS
from sfumato.server.keys import ANONYMOUS, is_hash
from sfumato.server.settings import (
    ANYONE,
    AnonymousSettings,
    ChatSettings,
    KeySettings,
    MechanismSettings,
    Settings,
)
from sfumato.space import catalogue

_MADE_HERE = ("inputs", "outputs", "tick", "say", "tuning", "epsilon")
"""Options of mechanisms that are no values of a file, or have a setting of their own."""
_SAID_BY_ARTIFACTS = ("algorithm", "space", "epsilon", "epsilons", "tuning", "tunings", "options")
_LEAST_SECRET = 32
_ATTEMPTS = 5
_NOTHING = object()
_STAND_INS: dict[int | str, Any] = {
    "id": "missing", "hash": f"sha256${'0' * 32}${'0' * 64}", "scopes": [], "upstream": "http://missing.invalid",
    "mechanism": "missing", "models": ["missing"], "pipeline": "missing",
    "mechanisms": {"missing": {"algorithm": "tem", "epsilon": 1.0}},
}  # fmt: skip
"""What stands in for settings that are needed and missing, while the rest is checked; nothing is started with them."""


class ConfigurationError(ParameterError):
    """The file cannot be used; all problems are listed."""

    def __init__(self, name: str, problems: list[str]) -> None:
        self.problems = tuple(problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
        super().__init__(f"{count} in {name}: {'; '.join(problems)}")


def read(path: Path) -> Settings:
    """Return the settings of a file; paths in it are relative to its folder."""
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(path.name, [f"this is not TOML: {error}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(path.name, [f"this is not UTF-8 at byte {error.start}"]) from None
    return checked(written, path.parent, path.name)


def checked(written: dict[str, Any], folder: Path, name: str = "the configuration") -> Settings:
    """Return settings from plain data, or raise with everything that is wrong with them."""
    settings, problems = _validated(written)
    settings = settings and _with_paths_below(settings, folder)
    if settings is not None:
        settings, unreadable = _with_artifacts(settings)
        settings, unknown = _with_address(settings)
        problems += _without_consequences([*unreadable, *unknown, *_disagreements(settings)], problems)
    if problems or settings is None:
        raise ConfigurationError(name, problems)
    return settings


def _validated(written: dict[str, Any]) -> tuple[Settings | None, list[str]]:
    """Return the settings and what is wrong; where some are, the rest is read without them, to check it as well."""
    problems: list[str] = []
    for attempt in range(_ATTEMPTS):
        try:
            return Settings.model_validate(written), problems
        except ValidationError as invalid:
            errors = invalid.errors(include_input=False, include_url=False)
        if attempt == 0:  # what is wrong later follows from what was taken out
            problems = [f"{_place(error['loc'])}: {_said(error)}" for error in errors]
        for error in reversed(errors):  # so that places in a list stay right while its ends are taken out
            location = tuple(part for part in error["loc"] if part != "[key]")
            instead = _STAND_INS.get(location[-1], _NOTHING) if error["type"] == "missing" else _NOTHING
            written = _changed(written, location, instead)
    return None, problems


def _without_consequences(found: list[str], earlier: list[str]) -> list[str]:
    """Return the problems that do not come from a place that was found to be wrong before."""
    wrong = {problem.partition(": ")[0] for problem in earlier}
    places = [(problem, problem.partition(": ")[0]) for problem in found]
    return [
        problem
        for problem, place in places
        if place not in wrong and not any(one.startswith(f"{place}.") for one in wrong)
    ]


def _said(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such setting"
    if error["type"] == "missing":
        return "this setting is needed"
    if error["type"] == "string_pattern_mismatch":
        return "a name has 1 to 40 characters of a-z, 0-9, dot and hyphen, a letter or digit first"
    return str(error["msg"])


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location if part != "[key]") or "the file"


def _changed(written: Any, location: tuple[int | str, ...], value: Any) -> Any:
    """Return a copy of plain data with another value at a place, or with none."""
    first, rest = location[0], location[1:]
    if isinstance(written, dict) and (first in written or not rest):
        kept = {key: one for key, one in written.items() if key != first}
        if not rest:
            return kept if value is _NOTHING else {**kept, first: value}
        return {**kept, first: _changed(written[first], rest, value)}
    if isinstance(written, list) and isinstance(first, int) and first < len(written):
        # A list of tables keeps its length, so that further places in it stay right.
        instead = [_changed(written[first], rest, value)] if rest else []
        return [*written[:first], *instead, *written[first + 1 :]]
    return written


def _with_paths_below(settings: Any, folder: Path) -> Any:
    """Return the settings with relative paths taken from the folder of the file."""
    changed: dict[str, Any] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Path):
            changed[name] = folder / value
        elif hasattr(type(value), "model_fields"):
            changed[name] = _with_paths_below(value, folder)
        elif isinstance(value, dict):
            changed[name] = {
                key: _with_paths_below(one, folder) if hasattr(type(one), "model_fields") else one
                for key, one in value.items()
            }
    if (
        isinstance(settings, Settings)
        and settings.ledger is not None
        and settings.ledger.url
        and "://" not in settings.ledger.url
    ):
        changed["ledger"] = changed["ledger"].model_copy(update={"url": str(folder / settings.ledger.url)})
    return settings.model_copy(update=changed)


def _with_artifacts(settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings with what the files of compiled mechanisms say, and what is wrong with them."""
    problems: list[str] = []
    mechanisms = dict(settings.mechanisms)
    for name, offered in settings.mechanisms.items():
        if offered.artifact is None:
            continue
        try:
            facts = describe(offered.artifact)
        except (SfumatoError, OSError) as error:
            reason = str(error) if isinstance(error, SfumatoError) else error.strerror or "cannot be read"
            problems.append(f"mechanisms.{name}.artifact: {reason}")
            continue
        if offered.digest is not None and offered.digest != facts.digest:
            problems.append(f"mechanisms.{name}.digest: the file's is {facts.digest}")
        if not facts.guarantee.sound and not offered.allow_unsound:
            problems.append(
                f"mechanisms.{name}.artifact: its guarantee is false; take another, or set allow_unsound = true"
            )
        problems += [
            f"mechanisms.{name}.{field}: the file says this; leave it out"
            for field in _SAID_BY_ARTIFACTS
            if getattr(offered, field) != MechanismSettings.model_fields[field].get_default(call_default_factory=True)
        ]
        epsilon = getattr(facts.guarantee, "epsilon", None)
        said = {"algorithm": facts.mechanism, "epsilon": epsilon, "digest": facts.digest}
        mechanisms[name] = offered.model_copy(update=said)
    return settings.model_copy(update={"mechanisms": mechanisms}), problems


def _with_address(settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings with the ledger's address, where that is in a file, and what is wrong with it."""
    ledger = settings.ledger
    if ledger is None:
        return settings, []
    if bool(ledger.url) == (ledger.url_file is not None):
        return settings, ["ledger: give either url or url_file"]
    if ledger.url_file is None:
        return settings, []
    problems = list(_of_file("ledger.url_file", ledger.url_file, 1))
    if problems:
        return settings, problems
    address = ledger.url_file.read_text(encoding="utf-8").strip()
    return settings.model_copy(update={"ledger": ledger.model_copy(update={"url": address})}), []


def _disagreements(settings: Settings) -> list[str]:
    problems: list[str] = []
    for name, space in settings.spaces.items():
        known = ["default", *(one.name for one in catalogue.entries())]
        if space.source not in known and not Path(space.source).exists():
            problems.append(f"spaces.{name}.source: neither a file nor one of {', '.join(known)}")
    for name, mechanism in settings.mechanisms.items():
        if mechanism.artifact is not None:
            continue  # looked at already
        problems += [f"mechanisms.{name}.{problem}" for problem in _of_mechanism(mechanism, settings)]
    for name, policy in settings.policies.items():
        for field in ("protect_words_file", "keep_words_file"):
            problems += _of_file(f"policies.{name}.{field}", getattr(policy, field))
        problems += _of_policy(name, settings)
    problems += _of_names(settings)
    problems += _of_keys(settings)
    problems += _of_secrets(settings)
    if settings.chat is not None:
        problems += [f"chat.{problem}" for problem in _of_chat(settings.chat)]
    return problems


def _of_mechanism(mechanism: MechanismSettings, settings: Settings) -> Iterator[str]:
    if mechanism.space not in settings.spaces:
        yield f"space: there is no [spaces.{mechanism.space}]"
    if not mechanism.algorithm:
        yield "algorithm: this setting is needed, or artifact with the file of a compiled mechanism"
        return
    try:
        known = entry(mechanism.algorithm)
    except ParameterError as error:
        yield f"algorithm: {error}"
        return
    if not known.sound and not mechanism.allow_unsound:
        yield "algorithm: its published guarantee is false; choose another, or set allow_unsound = true"
    if settings.ledger is not None and not known.sound:
        yield "algorithm: an unsound mechanism has no price, so it cannot be used together with a ledger"
    if known.takes_epsilon and mechanism.epsilon is None:
        yield "epsilon: this setting is needed"
    if not known.takes_epsilon and (mechanism.epsilon is not None or mechanism.epsilons):
        yield "epsilon: this mechanism has none"
    tunings = [*mechanism.tunings, *([] if mechanism.tuning is None else [mechanism.tuning])]
    if tunings and "tuning" not in known.options:
        yield "tuning: this mechanism has none"
    elif known.options.get("tuning") in TUNINGS:
        for tuning in tunings:
            if tuning not in TUNINGS:
                yield f"tuning: must be one of {', '.join(sorted(TUNINGS))}"
    for option in mechanism.options:
        if option in _MADE_HERE or option not in known.options:
            names = sorted(set(known.options) - set(_MADE_HERE))
            yield f"options.{option}: {mechanism.algorithm} has the options {', '.join(names) or '(none)'}"


def _of_policy(name: str, settings: Settings) -> list[str]:
    from sfumato.server.policies import made

    policy = settings.policies[name]
    if any(file is not None and not file.is_file() for file in (policy.protect_words_file, policy.keep_words_file)):
        return []  # said already
    try:
        made(policy)
    except SfumatoError as error:
        return [f"policies.{name}: {error}"]
    return []


def _of_names(settings: Settings) -> Iterator[str]:
    if settings.mechanism not in settings.mechanisms:
        yield f"default_mechanism: there is no [mechanisms.{settings.mechanism}]"
    if settings.policy not in settings.policies:
        yield f"default_policy: there is no [policies.{settings.policy}]"
    for place, caller in _callers(settings):
        for name in caller.mechanisms:
            if name not in settings.mechanisms:
                yield f"{place}.mechanisms: there is no [mechanisms.{name}]"
        for name in caller.policies:
            if name not in settings.policies:
                yield f"{place}.policies: there is no [policies.{name}]"
    if settings.chat is not None:
        yield from _of_chat_names(settings, settings.chat)


def _of_chat_names(settings: Settings, chat: ChatSettings) -> Iterator[str]:
    policy = settings.policy if chat.policy is None else chat.policy
    if chat.mechanism not in settings.mechanisms:
        yield f"chat.mechanism: there is no [mechanisms.{chat.mechanism}]"
    if policy not in settings.policies:
        yield f"chat.policy: there is no [policies.{policy}]"
    for place, caller in _callers(settings):
        if "chat" not in caller.scopes:
            continue
        if caller.mechanisms and chat.mechanism not in caller.mechanisms:
            yield f"{place}.mechanisms: the scope chat needs the mechanism of [chat], {chat.mechanism}"
        if caller.policies and policy not in caller.policies:
            yield f"{place}.policies: the scope chat needs the policy of [chat], {policy}"


def _callers(settings: Settings) -> list[tuple[str, KeySettings | AnonymousSettings]]:
    return [*((f"keys.{place}", key) for place, key in enumerate(settings.keys)), ("anonymous", settings.anonymous)]


def _of_keys(settings: Settings) -> Iterator[str]:
    seen: set[str] = set()
    for place, key in enumerate(settings.keys):
        if key.id in seen:
            yield f"keys.{place}.id: another key has this name already"
        seen.add(key.id)
        if key.id == ANONYMOUS:
            yield f"keys.{place}.id: this name stands for callers without a key; choose another"
        if not is_hash(key.hash):
            yield f"keys.{place}.hash: not a hash made by 'sfumato serve --new-key NAME'"
        if ANYONE in key.subjects and len(key.subjects) > 1:
            yield f'keys.{place}.subjects: either names, or ["*"] for all'
    if not settings.keys and not settings.anonymous.scopes:
        yield "keys: nobody may do anything; make a key with 'sfumato serve --new-key NAME', or set [anonymous] scopes"


def _of_secrets(settings: Settings) -> Iterator[str]:
    key_file = settings.noise.key_file
    if key_file is None:
        if settings.ledger is not None:
            yield (
                "noise.key_file: needed with a ledger, so that a request that is repeated gets the same noise after a "
                "restart too; make one with: head -c 32 /dev/urandom > noise.key"
            )
    else:
        yield from _of_file("noise.key_file", key_file, _LEAST_SECRET)
    if settings.ledger is not None:
        yield from _of_file("ledger.subject_key_file", settings.ledger.subject_key_file, 16)
    if settings.chat is not None:
        yield from _of_file("chat.key_file", settings.chat.key_file, 1)


def _of_file(place: str, file: Path | None, least: int = 0) -> Iterator[str]:
    if file is None:
        return
    try:
        size = len(file.read_bytes())
    except OSError as error:
        yield f"{place}: {error.strerror or 'cannot be read'}"
        return
    if size < least:
        yield f"{place}: the file has {size} bytes, and at least {least} are needed"


def _of_chat(chat: ChatSettings) -> Iterator[str]:
    parts = urlsplit(chat.upstream)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        yield "upstream: an address such as https://models.example.org/v1 is needed"
    elif parts.username or parts.password:
        yield "upstream: no user or password in the address; put the key into a file and name it in key_file"
    if not chat.models:
        yield "models: name at least one"
