#!/bin/sh
# Writes gate.md as a comment of a pull request on GitHub, or replaces the comment of an earlier run.
# Reads GITHUB_REPOSITORY, PULL_REQUEST (its number), GATE_REPORTS, and GH_TOKEN with the permission `pull-requests: write`.
set -eu

body=${GATE_REPORTS:-.}/gate.md
if [ ! -f "$body" ]; then
    echo "no report at $body: nothing to comment" >&2
    exit 0
fi
marker=$(head -n 1 "$body")
export marker
comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments
id=$(gh api --paginate "$comments" --jq '.[] | select(.body | startswith(env.marker)) | .id' | head -n 1)
if [ -n "$id" ]; then
    gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" --field "body=@$body" > /dev/null
else
    gh api --method POST "$comments" --field "body=@$body" > /dev/null
fi
