"""A report as a mail: what a mail program finds in it."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import cast

import pytest

from bench.report.outputs.drawn import Drawing
from bench.report.outputs.mail import MOST_LINES, BadHeader, Headers, render_mail
from tests import factories
from tests.report.hostile import SCRIPT, hostile
from tests.report.sample import everything

NOW = "2026-01-02T04:00:00+00:00"
PNG = b"\x89PNG\r\n\x1a\n and more"
FIGURE = Drawing("s1-1f11t", "time per call against seq_len: eager", "<svg/>", PNG)


def mail(headers: Headers | None = None, figure: Drawing | None = FIGURE, page: str = "<!doctype html><p>µ") -> EmailMessage:
    runs, results = everything(trials=1)
    data = render_mail(runs, results, page, figure, headers or Headers(), now=NOW, name="attention.html")
    return cast(EmailMessage, message_from_bytes(data, policy=default))


def test_a_mail_has_text_a_table_the_figure_and_the_page() -> None:
    message = mail()
    plain, rich = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    assert rich is not None
    assert "* Fastest measured, forward" in plain.get_content()
    assert any(line.split()[:2] == ["forward", "128"] and " µs (" in line for line in plain.get_content().splitlines())
    assert rich.get_content().count("<table") == 1
    assert 'src="cid:figure@stepbench.invalid"' in rich.get_content()
    (image,) = [part for part in message.walk() if part.get_content_type() == "image/png"]
    assert (image["Content-ID"], image.get_content()) == ("<figure@stepbench.invalid>", PNG)
    (page,) = list(message.iter_attachments())
    assert (page.get_filename(), page.get_content_type()) == ("attention.html", "text/html")
    assert page.get_payload(decode=True) == "<!doctype html><p>µ".encode()


def test_without_names_it_is_a_draft_from_nobody_about_how_the_cases_ended() -> None:
    message = mail()
    assert message["Subject"].startswith("attention: 108 cases, ")
    assert (message["From"], message["To"], message["X-Unsent"]) == ("stepbench <report@stepbench.invalid>", None, "1")
    assert message["Date"].datetime.isoformat() == NOW


def test_headers_are_those_that_were_asked_for() -> None:
    message = mail(Headers("Jané <jane@lab.example>", ("a@b.example", "C D <c@d.example>"), "Nächste Nacht"))
    assert [str(one.addr_spec) for one in message["To"].addresses] == ["a@b.example", "c@d.example"]
    assert message["From"].addresses[0].display_name == "Jané"
    assert message["Subject"] == "Nächste Nacht"


@pytest.mark.parametrize(
    "headers",
    [
        Headers(to=("nobody",)),
        Headers(to=("",)),
        Headers(sender="a@b\nBcc: c@d.example"),
        Headers(subject="hello\r\nBcc: c@d.example"),
        Headers(to=("a@b.example, c@d.example\x00",)),
        Headers(sender="@"),
    ],
)
def test_what_is_no_address_and_what_would_add_a_header_is_refused(headers: Headers) -> None:
    with pytest.raises(BadHeader):
        mail(headers)


def test_the_same_report_gives_the_same_bytes_and_another_page_another_id() -> None:
    runs, results = everything(trials=1)
    first, second, other = (
        render_mail(runs, results, page, FIGURE, Headers(), now=NOW, name="a.html") for page in ("<p>", "<p>", "<b>")
    )
    assert first == second
    assert message_from_bytes(first)["Message-ID"] != message_from_bytes(other)["Message-ID"]


def test_names_of_others_stay_text() -> None:
    runs, results = hostile()
    message = cast(
        EmailMessage, message_from_bytes(render_mail(runs, results, "", None, Headers(), now=NOW, name="a.html"), policy=default)
    )
    rich = message.get_body(("html",))
    assert rich is not None
    assert SCRIPT not in rich.get_content()
    assert "<script" not in rich.get_content()


def test_a_long_table_ends_in_the_mail_and_says_where_the_rest_is() -> None:
    run = factories.run()
    rows = [factories.result(run.id, factories.case(seq_len=size)) for size in range(1, MOST_LINES + 8)]
    data = render_mail([run], rows, "", None, Headers(), now=NOW, name="a.html")
    plain = cast(EmailMessage, message_from_bytes(data, policy=default)).get_body(("plain",))
    assert plain is not None
    assert "… 7 more lines in the attached page" in plain.get_content()
