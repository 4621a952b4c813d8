"""Whole outputs: the page of runs, the page of a judged run, texts for machines and pull requests, a mail, files of figures."""
