#!/bin/sh
# What the server runs as its supervisor in hostile.rs, through a symbolic link in the test's folder: one whose files
# have 16 blocks of 512 bytes at most. A write beyond that raises SIGXFSZ.
ulimit -f 16
exec "$0.real" "$@"
