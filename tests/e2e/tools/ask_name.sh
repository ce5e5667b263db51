#!/bin/sh
# Asks for a name, and greets whoever answers. Who declines makes it fail.
set -eu
question=$TASKBRIDGE_QUESTIONS/name.json
answer=$TASKBRIDGE_QUESTIONS/name.answer.json
# A question counts as soon as its file is there, so it has to be whole by then.
cat >"$question.draft" <<'JSON'
{"message": "What is your name?",
 "schema": {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}}
JSON
mv "$question.draft" "$question"
while [ ! -e "$answer" ]; do
    sleep 0.1
done
name=$(sed -n 's/.*"action":"accept".*"name":"\([^"]*\)".*/\1/p' "$answer")
if [ -z "$name" ]; then
    echo "the question was declined" >&2
    exit 1
fi
echo "hello $name"
