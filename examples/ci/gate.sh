#!/bin/sh
# Checks a run of an experiment and writes gate.xml (JUnit) and gate.md (Markdown) into GATE_REPORTS.
# The exit status is that of `perpend gate`: 0 passed, 1 failed, 2 undecided, 3 configuration or connection, 4 too expensive.
#
# GATE_RUN       id or name of the run
# GATE_RESULT    instead: a file with the results of the run
# GATE_BASELINE  the baseline: a run or `branch:NAME`; with GATE_RESULT a file
# GATE_CONFIG    the requirements, gate.toml by default
# PERPEND_PROGRAM  the program, `perpend` by default; PERPEND_HOST, PERPEND_PUBLIC_KEY and PERPEND_SECRET_KEY are read by it
set -u

reports=${GATE_REPORTS:-.}
mkdir -p "$reports" || exit 3
set -- gate --config "${GATE_CONFIG:-gate.toml}" --junit "$reports/gate.xml" --markdown "$reports/gate.md"
[ -z "${GATE_RUN:-}" ] || set -- "$@" --run "$GATE_RUN"
[ -z "${GATE_RESULT:-}" ] || set -- "$@" --result "$GATE_RESULT"
[ -z "${GATE_BASELINE:-}" ] || set -- "$@" --baseline "$GATE_BASELINE"

status=0
"${PERPEND_PROGRAM:-perpend}" "$@" || status=$?

# The summary of a job on GitHub.
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$reports/gate.md" ]; then
    cat "$reports/gate.md" >> "$GITHUB_STEP_SUMMARY"
fi
exit "$status"
