"""What is taken out of a text, and what is left in it."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.machine.secrets import MASK, looks_secret, scrub, scrub_data


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "GOOGLE_CREDENTIALS",
        "token",
        "GITHUB_PAT",
        "SSH_KEY",
        "PGPASSWORD",
        "SSHPASS",
        "MYTOKEN",
        "npm_config__authToken",
        "myapikey",
        "HTTP_AUTHORIZATION",
        "MYSECRETS",
    ],
)
def test_names_that_look_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "PWD", "OLDPWD", "MONKEY", "KEYBOARD", "PATH", "COMPASS", "GIT_AUTHOR_NAME"]
)
def test_names_that_only_sound_like_it(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "hf_" + "aB3" * 8,
        "ghp_" + "a1" * 15,
        "github_pat_" + "A1b2_" * 6,
        "sk-" + "proj-" + "a1B2" * 6,
        "AKIA" + "ABCDEFGH12345678",
        "xoxb-" + "123456789012-abcdef",
        "glpat-" + "abcdefghij1234567890",
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
        "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIabc\ndef\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_tokens_are_known_by_their_shape(text: str) -> None:
    assert scrub(f"before {text} after", variables={}) == f"before {MASK} after"


def test_a_bearer_token_goes_and_the_word_stays() -> None:
    assert scrub("Authorization: Bearer abc.def-123456", variables={}) == f"Authorization: Bearer {MASK}"


def test_a_password_in_a_url_goes_and_the_rest_stays() -> None:
    assert (
        scrub("postgresql+psycopg://bench:p%40ss:w@rd@host:5432/db", variables={})
        == f"postgresql+psycopg://bench:{MASK}@host:5432/db"
    )
    assert scrub("redis://:hunter2@host/0", variables={}) == f"redis://:{MASK}@host/0"
    assert scrub("https://github.com:443/a/b@c", variables={}) == "https://github.com:443/a/b@c"


def test_assigned_passwords_go() -> None:
    assert scrub("tool --api-key=abcd1234 PASSWORD=hunter2 n=3", variables={}) == f"tool --api-key={MASK} PASSWORD={MASK} n=3"


@pytest.mark.parametrize(
    "text",
    [
        "password: <foo12345>",
        "{'api_key': '<abcd1234>'}",
        '{"api_key":"<abcd1234>"}',
        "db_password = <hunter22>",
        "tool --token=<abcdefgh> -n 3",
        "tool --token <abcdefgh> -n 3",
        "tool --hf-token '<abcdefgh>'",
        "token: <a1b2c3d4>",
        "{'token': '<abcdefgh>'}",
        "client_secret=<abc12345>, next",
    ],
)
def test_a_secret_goes_in_each_form_and_what_surrounds_it_stays(text: str) -> None:
    value = text[text.index("<") + 1 : text.index(">")]
    once = scrub(text.replace("<", "").replace(">", ""), variables={})
    assert once == text.replace(f"<{value}>", MASK)
    assert scrub(once, variables={}) == once


@pytest.mark.parametrize(
    "text",
    [
        "tokens: 16384",
        "tokens=128",
        "token 5",
        "token: 5",
        "token: 16384",
        "batch: {tokens: 16384}",
        "{'tokens': 16384}",
        "bench run x --set 'batch={tokens: 16384}' --filter tokens=16384",
        "--max-tokens 16384",
        "--tokenizer meta-llama",
        "--token 163840",
        "Unexpected token: identifier",
        "secret-looking numbers",
        "flops_per_token=12345678",
    ],
)
def test_words_and_numbers_that_only_sound_secret_stay(text: str) -> None:
    assert scrub(text, variables={}) == text


@given(
    st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=("Zs", "Cc")), min_size=6, max_size=40)
)
def test_the_value_of_a_secret_variable_is_found_in_every_spelling(value: str) -> None:
    variables = {"MY_TOKEN": value}
    for spelling in (value, quote(value, safe=""), json.dumps(value)):
        assert value not in scrub(f"<{spelling}>", variables=variables).replace(MASK, "")


def test_the_longer_of_two_secrets_goes_as_a_whole() -> None:
    variables = {"A_TOKEN": "sesame", "B_TOKEN": "sesame-open"}
    assert scrub("x sesame-open y sesame z", variables=variables) == f"x {MASK} y {MASK} z"


def test_short_values_and_ordinary_text_stay() -> None:
    text = "eager forward fp32 seq_len=128: 1.2 ms, https://example.org/a?b=c#d, user@example.org, token: 5"
    assert scrub(text, variables={"A_TOKEN": "1", "HOME": "eager"}) == text


def test_scrubbing_twice_changes_nothing_more() -> None:
    text = "postgresql://u:secretpw@h/db Bearer abcdefghijk PASSWORD=abcdef"
    once = scrub(text, variables={})
    assert scrub(once, variables={}) == once


def test_texts_inside_data_are_scrubbed_and_numbers_are_not() -> None:
    data = {"reason": "got 123456", "samples": [123456, 1.0, None, True], "deep": [{"log 123456": "x"}]}
    assert scrub_data(data, variables={"A_PASSWORD": "123456"}) == {
        "reason": f"got {MASK}",
        "samples": [123456, 1.0, None, True],
        "deep": [{f"log {MASK}": "x"}],
    }
