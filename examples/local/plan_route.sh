#!/bin/sh
# plan_route.sh < ARGUMENTS: the places in the order of a greedy walk. The JSON is as the server wrote it, without blanks.
set -eu
tr '{' '\n' | sed -n 's/.*"name":"\([A-Za-z ]*\)","x":\(-\{0,1\}[0-9]*\),"y":\(-\{0,1\}[0-9]*\).*/\2 \3 \1/p' | awk '
    { x[NR] = $1; y[NR] = $2; $1 = $2 = ""; sub(/^ +/, ""); name[NR] = $0 }
    END {
        at = 1
        for (step = 1; step <= NR; step++) {
            seen[at] = 1
            order = order (step > 1 ? "," : "") "\"" name[at] "\""
            best = 0
            for (i = 1; i <= NR; i++) {
                far = (x[i] - x[at]) ^ 2 + (y[i] - y[at]) ^ 2
                if (!seen[i] && (!best || far < least)) { best = i; least = far }
            }
            if (best) { walk += sqrt(least); at = best }
        }
        printf "{\"order\": [%s], \"length\": %.1f}\n", order, walk
    }' > "$TASKBRIDGE_OUTPUT"
