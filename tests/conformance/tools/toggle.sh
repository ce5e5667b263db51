#!/bin/sh
# Adds a tool or a prompt ($1) to the config beside this folder, or takes it out again. Run it on a copy.
set -eu
config=$(dirname "$0")/../taskbridge.toml
mark="# $1 of toggle.sh"
if grep -qxF "$mark" "$config"; then
    sed "/^$mark\$/,/^$mark, to here\$/d" "$config" >"$config.new"
else
    cat "$config" - >"$config.new" <<END
$mark
$(case $1 in
        tool) printf '[tools.added]\ndescription = "Was added."\nbackend = "machine"\ntarget = { command = ["true"] }' ;;
        prompt) printf '[prompts.added]\ndescription = "Was added."\nmessages = [{ text = "Added." }]' ;;
    esac)
$mark, to here
END
fi
# The server sees either the one or the other, whole.
mv "$config.new" "$config"
echo "the config was changed"
