"""Takes secrets out of any text before it is stored or shown.

Three sources: the values of this process's environment variables whose names look secret, the shapes of well-known tokens, and
passwords inside URLs. It is a net with a wide mesh on purpose: a number lost from a log costs nothing, a token stored costs a lot.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

MASK = "[secret]"

SHORTEST_SECRET = 6
"""Shorter values would blot out ordinary words."""

_SECRET_NAME = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|(?<!COM)(?<!BY)PASS$|SECRET|TOKEN(?!S|IZ)|AUTH(?!OR(?!I[SZ]))|CREDENTIAL"
    r"|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|(?:^|_)(?:PASS|PWD|KEY|PAT|COOKIE|DSN)(?:_|$)"
)
"""Substrings, since `PGPASSWORD`, `MYTOKEN` and `npm_config__authToken` join their words; but authors and tokenizers are no secrets."""
_HARMLESS_NAME = frozenset({"PWD", "OLDPWD"})

_SHAPES = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\bhf_[A-Za-z0-9]{16,}"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    re.compile(r"\bglpat-[A-Za-z0-9_-]{16,}"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"),
    re.compile(r"\bxox[a-z]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\bnpm_[A-Za-z0-9]{30,}"),
    re.compile(r"\bpypi-[A-Za-z0-9_-]{30,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")
_MASKED = re.escape(MASK)
_STRONG = r"password|passwd|passphrase|api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|access[_-]?token|auth[_-]?token"
_WEAK = r"token|secret|credentials?"
_VALUE = r"[^\s&'\",;{}()\[\]]"
_ASSIGNED = re.compile(rf"(?i)([a-z0-9_-]{{0,40}}(?:{_STRONG})['\"]?\s?[=:][ \t]*['\"]?)(?!{_MASKED})([^\s&'\"]{{4,}})")
"""`password: x`, `{'api_key': 'x'}`: after these words everything is a secret."""
_WEAKLY_ASSIGNED = re.compile(
    rf"(?i)([a-z0-9_-]{{0,40}}(?:{_WEAK})['\"]?\s?[=:][ \t]*)(?!['\"]?{_MASKED})"
    # Parsers speak of tokens as well: what is neither quoted nor has both letters and digits is a word or a number.
    rf"((?:['\"](?=[^'\"]*[a-z])[^'\"\s]{{8,}})|(?:(?=[^\s&'\",;]*\d)(?=[^\s&'\",;]*[a-z]){_VALUE}{{6,}}))"
)
_OPTION = re.compile(
    rf"(?i)(?<![\w-])(--?[a-z0-9_-]{{0,40}}(?:{_STRONG}|{_WEAK})(?:=|[ \t]+)['\"]?)(?!{_MASKED})(?!-)"
    r"(?![\d.,_]+(?:[\s'\"]|\Z))([^\s'\"]{4,})"
)
"""`--token x` and `--token=x`; `--max-tokens 128` and `--tokenizer x` are none."""
_URL_PASSWORD = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)(?P<user>[^\s:/@?#]*):(?P<password>[^\s/?#]+)@", re.IGNORECASE)
_URL_USER_ONLY = re.compile(r"(?P<scheme>\bhttps?://)(?P<user>[^\s:/@?#]{16,})@", re.IGNORECASE)


@lru_cache(maxsize=4096)
def looks_secret(name: str) -> bool:
    """Whether the value of a variable of this name must not be stored."""
    return name.upper() not in _HARMLESS_NAME and _SECRET_NAME.search(name.upper()) is not None


def _spellings(value: str) -> Iterable[str]:
    yield value
    yield quote(value, safe="")
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    for line in value.splitlines():
        if len(line.strip()) >= 2 * SHORTEST_SECRET:
            yield line.strip()


def _secret_values(variables: Mapping[str, str]) -> list[str]:
    found = {
        spelling
        for name, value in variables.items()
        if looks_secret(name) and len(value.strip()) >= SHORTEST_SECRET
        for spelling in _spellings(value.strip())
    }
    # The longest first: a secret that contains another must go as a whole.
    return sorted(found, key=lambda text: (-len(text), text))


def scrub(text: str, *, variables: Mapping[str, str] | None = None) -> str:
    """`text` with every secret replaced by `[secret]`; `variables` are the environment of this process unless given."""
    for value in _secret_values(os.environ if variables is None else variables):
        text = text.replace(value, MASK)
    text = _URL_PASSWORD.sub(rf"\g<scheme>\g<user>:{MASK}@", text)
    text = _URL_USER_ONLY.sub(rf"\g<scheme>{MASK}@", text)
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    text = _BEARER.sub(rf"\g<1>\g<2>{MASK}", text)
    for form in (_OPTION, _ASSIGNED):
        text = form.sub(rf"\g<1>{MASK}", text)
    return _WEAKLY_ASSIGNED.sub(_mask_value, text)


def _mask_value(found: re.Match[str]) -> str:
    quote_mark = found[2][0] if found[2][0] in "'\"" else ""
    return f"{found[1]}{quote_mark}{MASK}"


def scrub_data(data: Any, *, variables: Mapping[str, str] | None = None) -> Any:
    """JSON-ready data with every text in it scrubbed, keys included; numbers stay what they are."""
    if isinstance(data, str):
        return scrub(data, variables=variables)
    if isinstance(data, Mapping):
        return {scrub(str(key), variables=variables): scrub_data(value, variables=variables) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [scrub_data(item, variables=variables) for item in data]
    return data
