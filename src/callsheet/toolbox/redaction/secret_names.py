"""Recognizes secrets by the name before them: `password=…`, `X-Api-Key: …`, `--token …`. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from callsheet.toolbox.redaction.secret_shapes import MASK, UUID

_SECRET_ANYWHERE = frozenset(
    {"password", "passwd", "pwd", "passphrase", "secret", "secrets", "dsn"}
    | {"authorization", "cookie", "cookies", "credential", "credentials"}
)
# These count only as the last word: `lease_token` is a secret, but `token_count` and a wallet's `tokens` are not.
_SECRET_AT_END = frozenset({"token", "bearer", "jwt", "signature", "sig", "apikey", "auth", "otp", "pat"})
# `PGPASSWORD`, `authtoken`: words without a separator.
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey", "accesskey", "secretkey", "authtoken")
# Words before `key` that make it a secret: kinds of keys, and their owners.
_SECRET_KEYS = frozenset(
    {"api", "access", "secret", "private", "signing", "master", "encryption", "session", "account", "auth", "shared"}
    | {"hmac", "ssh", "subscription", "license", "webhook", "fleet", "service", "admin", "client", "app", "deploy"}
    | {"openai", "anthropic", "gemini", "replicate", "fal", "comfy", "stability", "runway", "luma", "elevenlabs"}
)
# Words after a secret's name if the value is about the secret, not the secret itself.
_HARMLESS_AT_END = frozenset(
    {"id", "ids", "name", "names", "count", "type", "kind", "secure", "file", "path"}
    | {"seconds", "minutes", "hours", "days", "age", "expires", "length", "size", "bytes"}
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"[\w.-]{1,80}\Z")
_MAX_NAME_LENGTH = 80
_NAME_PARTS = (
    *("passw", "passphrase", "pwd", "secret", "token", "sig", "credential", "key", "dsn"),
    *("auth", "cookie", "jwt", "bearer", "otp", "pat"),
)
# A word that occurs in names of secrets, the rest of the name, and the separator before the value. The name's start is
# found by walking back from here: a pattern that started with any name would be quadratic.
_NAMED = re.compile(
    rf"(?:{'|'.join(_NAME_PARTS)})[\w.-]{{0,40}}?"
    r"(?P<between>\\{0,4}[\"']\s{0,3}(?:=>|[:=,])\s{0,3}|\s{0,3}(?:=>|:=|[:=]|%3[dD])\s{0,3}"
    r"|\s{1,3}(?:is|was):?\s{1,3}|\s{1,3}(?=[^\s:=]))",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"(?:[bruBRU]{1,2}(?=[\"']))?(?:\\{0,4}\"(?P<double>[^\"]{0,8000})\"|\\{0,4}'(?P<single>[^']{0,8000})'"
    r"|\\{0,4}[\"']?(?P<bare>[^\s&;,\"'<>]+))"
)
# `Authorization: Digest a="b", c="d"` and `Cookie: a=b; c=d` have several values.
_HEADERS = ("authorization", "cookie")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,30}")
_CREDENTIALS = re.compile(r"\s{1,3}([\w.-]{1,80}=\"[^\"]{0,1000}\"|[^\s\"',;]+)")
_MORE_PAIRS = re.compile(r"(?:[,;]\s{0,3}[\w.-]{1,80}=(?:\"[^\"]{0,1000}\"|[^\s\"',;]*)){1,50}")
_QUOTED = re.compile(r"[\"']")
# "the password is hunter2": what a sentence says about a secret, if it is not one of these words or of `_PROSE`.
_IS_OR_WAS = re.compile(r"\s+(?:is|was):?\s+", re.IGNORECASE)
_STATES = frozenset(
    {"absent", "already", "blank", "configured", "correct", "different", "disabled", "here", "known", "long", "longer"}
    | {
        "needed",
        "never",
        "now",
        "older",
        "optional",
        "short",
        "shorter",
        "so",
        "stale",
        "stored",
        "still",
        "unavailable",
    }
    | {"unset", "valid", "weak"}
)
_PASSWORDS = ("password", "passwd", "pwd", "passphrase", "secret")
# Values that mean that there is no secret.
_NOTHING = frozenset({"none", "null", "true", "false", "undefined", "nil", ""})
# After "password:" a sentence may follow. Any other word counts as the secret. fmt: off
_PROSE = frozenset(
    {
        "a",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "bad",
        "before",
        "but",
        "by",
        "can",
        "cannot",
        "contains",
        "could",
        "denied",
        "did",
        "do",
        "does",
        "empty",
        "error",
        "exceeds",
        "expected",
        "expired",
        "failed",
        "field",
        "for",
        "format",
        "found",
        "from",
        "got",
        "had",
        "has",
        "have",
        "header",
        "headers",
        "if",
        "in",
        "incorrect",
        "input",
        "int",
        "invalid",
        "is",
        "it",
        "its",
        "json",
        "length",
        "long",
        "looks",
        "malformed",
        "may",
        "mismatch",
        "missing",
        "must",
        "needs",
        "no",
        "not",
        "nothing",
        "of",
        "on",
        "one",
        "only",
        "or",
        "please",
        "provided",
        "refused",
        "rejected",
        "required",
        "revoked",
        "set",
        "should",
        "str",
        "string",
        "text",
        "that",
        "the",
        "there",
        "this",
        "to",
        "too",
        "type",
        "unauthorized",
        "unknown",
        "unsupported",
        "use",
        "used",
        "value",
        "verification",
        "was",
        "were",
        "when",
        "which",
        "will",
        "with",
        "without",
        "wrong",
        "your",
    }
)
# fmt: on


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Whether a field with this name contains a secret."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or words[-1] in _HARMLESS_AT_END:
        return False
    if words[-1] in _SECRET_AT_END or not _SECRET_ANYWHERE.isdisjoint(words):
        return True
    if any(word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    return words[-1] == "key" and len(words) > 1 and words[-2] in _SECRET_KEYS


def mask_named(text: str) -> str:
    """The text without the values of names that contain a secret."""
    lowered = text.lower()
    if not any(part in lowered for part in _NAME_PARTS):
        return text
    pieces: list[str] = []
    done = 0
    for found in _NAMED.finditer(text):
        if found.start() < done:
            continue
        name = _name_before(text, max(done, found.start() - _MAX_NAME_LENGTH), found.start("between"))
        secret = _secret_at(text, found.end(), name, found["between"]) if is_secret_key(name) else None
        if secret is not None:
            pieces += [text[done : secret.start], MASK]
            done = secret.stop
    return "".join([*pieces, text[done:]]) if pieces else text


def _name_before(text: str, start: int, end: int) -> str:
    found = _NAME.search(text[start:end])
    return found[0] if found is not None else ""


def _secret_at(text: str, start: int, name: str, between: str) -> slice | None:
    """The value of this name; None if it is not a secret."""
    found = _VALUE.match(text, start)
    if found is None:
        return None
    value = next(part for part in (found["double"], found["single"], found["bare"]) if part is not None)
    if value.lower() in _NOTHING or value.startswith(MASK) or (between.isspace() and not _follows(name, value)):
        return None
    if found["bare"] is None:
        return slice(start, found.end())
    if _IS_OR_WAS.fullmatch(between):
        return slice(start, start + len(value.rstrip(".,:;!?)"))) if _names_secret(name, value) else None
    if ":" in between and not _QUOTED.search(between) and value.rstrip(".,:;!?)").lower() in _PROSE:
        return None
    return _header_at(text, start, value) if name.lower().endswith(_HEADERS) else slice(start, found.end())


def _names_secret(name: str, value: str) -> bool:
    """Whether "the … is value" names a secret. A token or a key without a digit is usually a word."""
    word = value.rstrip(".,:;!?)").lower()
    return word not in _PROSE | _STATES and (name.lower().endswith(_PASSWORDS) or any(map(str.isdigit, word)))


def _header_at(text: str, start: int, value: str) -> slice | None:
    """The value of a header. The scheme of `Authorization: Basic …` is useful and stays."""
    credentials = _CREDENTIALS.match(text, start + len(value)) if _SCHEME.fullmatch(value) else None
    if credentials is not None and credentials[1].startswith(MASK):
        return None
    if credentials is not None:
        start, end = credentials.start(1), credentials.end()
    else:
        end = start + len(value)
    more = _MORE_PAIRS.match(text, end)
    return slice(start, more.end() if more is not None else end)


def _follows(name: str, value: str) -> bool:
    """Whether a blank before the value is enough: `--password x`, or "the token 3f9c…", which is longer than any
    word.
    """
    if name.startswith("--"):
        return not value.startswith("-")
    return len(value) >= 20 and any(map(str.isdigit, value)) and UUID.fullmatch(value) is None
