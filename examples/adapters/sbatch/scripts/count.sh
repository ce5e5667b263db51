#!/bin/bash
# Says how many letters its label has. The arguments are a JSON file. Whatever is killed in it ends it: a cancellation may
# reach a command before this shell.
set -eu
label=$(sed -n 's/.*"label": *"\([^"]*\)".*/\1/p' "$1")
seconds=$(sed -n 's/.*"seconds": *\([0-9]*\).*/\1/p' "$1")
echo "$label" >>../began
sleep "${seconds:-0}"
[[ $label != fail* ]] || { echo "no data for $label" >&2 && exit 3; }
echo "$label has ${#label} letters"
