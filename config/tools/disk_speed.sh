#!/bin/sh
# disk_speed.sh MIB: writes that much into a file, reads it back, deletes it, and says how fast that was.
set -eu

size=$1
file=$(mktemp ./speed.XXXXXX) # in the job's own folder
trap 'rm -f "$file"' EXIT
trap 'exit 143' TERM

now() { date +%s%N; }

write_from=$(now)
written=0
while [ "$written" -lt "$size" ]; do
    step=$((size - written < 32 ? size - written : 32))
    dd if=/dev/zero of="$file" bs=1048576 count="$step" seek="$written" conv=notrunc,fdatasync 2> /dev/null
    written=$((written + step))
    echo "progress $written/$((2 * size)) Writing: $written of $size MiB" >> "$TASKBRIDGE_EVENTS"
done
read_from=$(now)

# Past the cache where the file system can; else it is the cache that is measured.
dd if="$file" of=/dev/null bs=1048576 iflag=direct 2> /dev/null || dd if="$file" of=/dev/null bs=1048576 2> /dev/null
end=$(now)
echo "progress $((2 * size))/$((2 * size)) Done" >> "$TASKBRIDGE_EVENTS"

per_second() { echo $((size * 1000000000 / ($1 > 0 ? $1 : 1))); }
printf '{"write_mib_per_second": %d, "read_mib_per_second": %d}\n' \
    "$(per_second $((read_from - write_from)))" "$(per_second $((end - read_from)))" > "$TASKBRIDGE_OUTPUT"
