#!/bin/sh
# Says three things, one after the other, and then hands back that it did.
set -eu
say() { echo "log info $1" >>"$TASKBRIDGE_EVENTS"; }
say "Tool execution started"
sleep 0.05
say "Tool processing data"
sleep 0.05
say "Tool execution completed"
echo "Tool with logging executed successfully"
