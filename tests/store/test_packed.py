"""What is packed into a page comes back whole, and a bomb or half a text does not."""

from __future__ import annotations

import base64
import re
import zlib

import pytest

from bench.store.packed import packed, unpacked


def test_text_comes_back_and_holds_no_character_of_html_while_packed() -> None:
    text = '{"a": "</script><!-- é \u2028 𝛼 \ud800"}' * 40
    made = packed(text)
    assert re.fullmatch(r"\[[ -~]+", made)
    assert not set(made) & set("<>&\"'\\")
    assert len(made) < len(text) / 4
    assert unpacked(made, 10_000) == text


@pytest.mark.parametrize("length", range(8))
def test_each_length_comes_back_and_its_last_letter_is_the_only_one(length: int) -> None:
    made = packed("x" * length)
    assert unpacked(made, 10) == "x" * length
    for other in "09AZaz!~,.:":
        if other != made[-1]:
            with pytest.raises(ValueError, match="cannot be unpacked"):
                unpacked(made[:-1] + other, 10)


def test_what_older_versions_packed_is_read() -> None:
    assert unpacked(base64.b64encode(zlib.compress("alt 𝛼".encode())).decode(), 100) == "alt 𝛼"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (packed("x" * 100_000_000), "more than 1000000 bytes"),
        (base64.b64encode(zlib.compress(b"half a text" * 90)[:-8]).decode(), "cut off"),
        (base64.b64encode(zlib.compress(b"whole") + b"more").decode(), "something follows"),
        ("no base64!", "cannot be unpacked"),
        (base64.b64encode(b"no deflate").decode(), "cannot be unpacked"),
        ("é", "cannot be unpacked"),
        ("[é", "cannot be unpacked"),
        ("[<><><", "cannot be unpacked"),
        ("[~~~~~", "cannot be unpacked"),
        ("[", "cut off"),
    ],
    ids=[
        "bomb",
        "half",
        "more",
        "no base64",
        "no deflate",
        "no ASCII",
        "no ASCII after the mark",
        "letters of HTML",
        "too large",
        "nothing",
    ],
)
def test_what_was_not_packed_here_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        unpacked(text, 1_000_000)
