#!/bin/sh
# Fails with the exit code $1 after $2 milliseconds, and says why.
sleep "$(printf '%d.%03d' "$(($2 / 1000))" "$(($2 % 1000))")"
echo "this job fails on purpose" >&2
exit "$1"
