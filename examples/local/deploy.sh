#!/bin/sh
# deploy.sh VERSION SERVICES: shows a plan, waits until a user approves it, and then pretends to deploy.
set -eu
version=$1
services=$2
[ -n "$DEPLOY_TOKEN" ] # never print it

count=$(echo "$services" | wc -w)
echo "message Waiting for approval" >> "$TASKBRIDGE_EVENTS"
ask="$TASKBRIDGE_QUESTIONS/approve"
cat > "$ask.new" << JSON
{"message": "Deploy $version of $count services ($services)?",
 "schema": {"type": "object", "properties": {"reason": {"type": "string", "title": "Why now?"}}}}
JSON
mv "$ask.new" "$ask.json"
while [ ! -e "$ask.answer.json" ]; do sleep 0.2; done

done=0
for service in $services; do
    echo "progress $done/$count Deploying $service" >> "$TASKBRIDGE_EVENTS"
    sleep 1
    done=$((done + 1))
    echo "$service is now at $version"
done
echo "progress $done/$count Done" >> "$TASKBRIDGE_EVENTS"
