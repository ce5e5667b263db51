#!/bin/sh
# Says, after $1 milliseconds, that it was started.
sleep "$(printf '%d.%03d' "$(($1 / 1000))" "$(($1 % 1000))")"
echo "it was started"
