"""Pictures as SVG, by matplotlib or by hand, in the colours of the page."""
