#!/bin/sh
# Hands back the content blocks of content/$1.json.
set -eu
cp "$(dirname "$0")/../content/$1.json" "$TASKBRIDGE_CONTENT"
