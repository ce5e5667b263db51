#!/bin/sh
# sort_lines.sh FILE [--reverse]
set -eu
file=$1
shift
sort -u "$@" -- "$file" > "$TASKBRIDGE_ARTIFACTS/sorted.txt"
echo "$(wc -l < "$TASKBRIDGE_ARTIFACTS/sorted.txt") different lines"
