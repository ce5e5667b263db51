#!/bin/sh
# Says $1 on standard error and fails, after $2 seconds.
set -eu
sleep "${2:-0}"
echo "$1" >&2
exit 1
