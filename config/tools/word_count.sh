#!/bin/sh
# word_count.sh FILE: how many lines, words and bytes it has.
set -eu

set -- $(wc -l -w -c < "$1")
printf '{"lines": %d, "words": %d, "bytes": %d}\n' "$1" "$2" "$3" > "$TASKBRIDGE_OUTPUT"
echo "$1 lines, $2 words, $3 bytes"
