#!/bin/sh
# archive_folder.sh FOLDER gzip|none ASK_ABOVE_MIB: packs the folder into an archive among the artifacts.
set -eu

cd -- "$1" || { echo "there is no folder $1, or it cannot be entered" >&2; exit 1; }
name=$(basename -- "$(pwd -P)")
[ "$name" != / ] || name=root
case $2 in
    gzip) archive="$name.tar.gz" compress=-z ;;
    none) archive="$name.tar" compress= ;;
esac

echo "message Measuring the folder" >> "$TASKBRIDGE_EVENTS"
# What cannot be read is left out, here and below, and told on standard error.
mib=$({ du -sm . || true; } | cut -f 1)
entries=$({ find . || true; } | tr -dc '\n' | wc -c)

if [ "$mib" -gt "$3" ]; then
    ask="$TASKBRIDGE_QUESTIONS/large"
    printf '{"message": "The folder holds %d MiB. Archive it all the same?"}\n' "$mib" > "$ask.new"
    mv "$ask.new" "$ask.json"
    while [ ! -e "$ask.answer.json" ]; do sleep 0.2; done
    grep -q '"action":"accept"' "$ask.answer.json" || { echo "Not archived: the folder holds $mib MiB."; exit 0; }
fi

# tar says each name that it packs.
status="$TASKBRIDGE_ARTIFACTS/.status"
{
    tar -c -v $compress --ignore-failed-read -f "$TASKBRIDGE_ARTIFACTS/$archive" . && echo 0 > "$status" || echo $? > "$status"
} | {
    packed=0
    while read -r _; do
        packed=$((packed + 1))
        [ $((packed % 100)) -ne 0 ] || echo "progress $packed/$entries $packed of $entries packed" >> "$TASKBRIDGE_EVENTS"
    done
    echo "progress $packed/$packed $packed packed" >> "$TASKBRIDGE_EVENTS"
}
read -r ended < "$status"
rm "$status"
# 1 says that a file changed while it was read.
[ "$ended" -le 1 ] || exit "$ended"

bytes=$(wc -c < "$TASKBRIDGE_ARTIFACTS/$archive")
printf '{"entries": %d, "bytes": %d}\n' "$entries" "$bytes" > "$TASKBRIDGE_OUTPUT"
echo "Packed $entries entries into $archive ($bytes bytes)."
