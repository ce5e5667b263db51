#!/bin/sh
# Counts to $1, one step each $2 milliseconds, and reports each step.
set -eu
pause=$(printf '%d.%03d' "$(($2 / 1000))" "$(($2 % 1000))")
n=0
while [ "$n" -lt "$1" ]; do
    sleep "$pause"
    n=$((n + 1))
    echo "progress $n/$1 at $n" >>"$TASKBRIDGE_EVENTS"
    echo "at $n" >&2
done
echo "counted to $n"
