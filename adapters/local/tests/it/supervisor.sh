#!/bin/sh
# What the server runs as its supervisor in behaviour.rs, through a symbolic link in the test's folder. If the file
# `$0.fails` exists, it fails once. Otherwise it becomes the real one, with a command that ignores SIGTERM, so that no
# job can be stopped before it was counted.
if mv "$0.fails" "$0.failed" 2>/dev/null; then exit 1; fi
trap '' TERM
exec "$0.real" "$@"
