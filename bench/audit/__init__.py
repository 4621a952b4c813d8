"""The audit of somebody's own training: what a probe saw in the script becomes findings, next switches, a row, and a comparison.

`running` starts the command, `whole` puts the ranks together, `findings/` judges (a file is a subject), `modelled` tells the memory model
what runs, `switches` and `advice` say what to switch on next, `stored` makes the row, `listed` names what is on, `compared` holds two
audits against each other, and `told` writes it all down. The probe itself lives in `bench/worker/audit`; its report is `bench.audited`.
"""
