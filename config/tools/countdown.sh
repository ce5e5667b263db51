#!/bin/sh
# countdown.sh SECONDS
set -eu

left=$1
while [ "$left" -gt 0 ]; do
    echo "progress $(($1 - left))/$1 $left seconds left" >> "$TASKBRIDGE_EVENTS"
    sleep 1
    left=$((left - 1))
done
echo "progress $1/$1 Done" >> "$TASKBRIDGE_EVENTS"
echo "Lift-off after $1 seconds."
