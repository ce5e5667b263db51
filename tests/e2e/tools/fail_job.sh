#!/bin/sh
# Fails with the exit code $1, and says why.
echo "this job fails on purpose" >&2
exit "$1"
