#!/bin/sh
# Says how far it is: three times, $1 seconds apart.
set -eu
for done in 0 50 100; do
    echo "progress $done/100 Completed step $done of 100" >>"$TASKBRIDGE_EVENTS"
    sleep "$1"
done
echo "done"
