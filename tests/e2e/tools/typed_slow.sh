#!/bin/sh
# Sleeps $1 milliseconds, then hands back a structured result.
set -eu
sleep "$(printf '%d.%03d' "$(($1 / 1000))" "$(($1 % 1000))")"
echo '{"answer": 42}' >"$TASKBRIDGE_OUTPUT"
