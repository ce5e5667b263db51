#!/bin/sh
# Asks each question of the arguments, `ID JSON` one after the other, all at once; waits for all answers and prints
# them, each behind the prefix $1.
set -eu
prefix=$1
shift
ids=
while [ $# -gt 0 ]; do
    # A question counts as soon as its file is there, so it has to be whole by then.
    printf '%s\n' "$2" >"$TASKBRIDGE_QUESTIONS/$1.draft"
    mv "$TASKBRIDGE_QUESTIONS/$1.draft" "$TASKBRIDGE_QUESTIONS/$1.json"
    ids="$ids $1"
    shift 2
done
for id in $ids; do
    answer=$TASKBRIDGE_QUESTIONS/$id.answer.json
    while [ ! -e "$answer" ]; do
        sleep 0.05
    done
    printf '%s%s\n' "$prefix" "$(cat "$answer")"
done
