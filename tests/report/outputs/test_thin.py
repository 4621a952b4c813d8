"""A thin page reads the same: the same text, the same attributes, the same statements."""

from __future__ import annotations

import re

from bench.report import render_page
from bench.report.outputs.thin import thin
from bench.report.recompute.statements import statements
from tests.report.hostile import hostile
from tests.report.views_sample import crossing_run

NOW = "2026-01-02T04:00:00+00:00"


def test_end_tags_that_follow_and_quotes_around_plain_values_go_and_nothing_else() -> None:
    kept = '<pre class="c">\n<li></li>\n</pre>'
    page = f'<ul class="a b">\n<li data-q="T1">one</li>\n<li title="a&quot;b">two</li>\n</ul>{kept}<use href="#m" x="1"/>'
    assert thin(page) == f'<ul class="a b"><li data-q=T1>one<li title="a&quot;b">two</ul>{kept}<use href=#m x="1"/>'


def test_a_thin_page_states_what_the_page_states() -> None:
    run, rows = crossing_run()
    for page in (render_page([run], rows, now=NOW), render_page(*hostile(), now=NOW)):
        made = thin(page)
        assert len(made) < len(page)
        assert list(statements(made)) == list(statements(page))
        kept = re.compile(r"<script.*?</script>|<pre.*?</pre>", re.S)
        assert kept.findall(made) == kept.findall(page)
