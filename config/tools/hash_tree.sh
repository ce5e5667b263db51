#!/bin/sh
# hash_tree.sh FOLDER: the SHA-256 of every file under it, and one for all of them.
set -eu

cd -- "$1" || { echo "there is no folder $1, or it cannot be entered" >&2; exit 1; }
sums="$TASKBRIDGE_ARTIFACTS/SHA256SUMS"
: > "$sums"
export LC_ALL=C sums

echo "message Looking for files" >> "$TASKBRIDGE_EVENTS"
total=$(find . -type f -print0 | tr -dc '\0' | wc -c)
export total

# In the order of the names, 64 at a time. A file that cannot be read is told on standard error and left out.
find . -type f -print0 | sort -z | xargs -0 -r -n 64 sh -c '
    sha256sum -- "$@" >> "$sums" || true
    done=$(wc -l < "$sums")
    echo "progress $done/$total $done of $total files" >> "$TASKBRIDGE_EVENTS"
' sh

files=$(wc -l < "$sums")
bytes=$(find . -type f -readable -print0 | du -bc --files0-from=- | tail -n 1 | cut -f 1)
digest=$(sha256sum < "$sums" | cut -d ' ' -f 1)
echo "progress $total/$total $files files hashed" >> "$TASKBRIDGE_EVENTS"
printf '{"files": %d, "bytes": %d, "unreadable": %d, "sha256": "%s"}\n' \
    "$files" "${bytes:-0}" "$((total - files))" "$digest" > "$TASKBRIDGE_OUTPUT"
echo "$digest  ($files files, ${bytes:-0} bytes)"
