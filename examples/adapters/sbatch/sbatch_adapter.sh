#!/usr/bin/env bash
# A taskbridge adapter in shell, without an SDK: a tool's call becomes a job of Slurm, by sbatch, squeue and scancel.
# It needs jq. The script of a job gets the path of its arguments, a JSON file; what it prints is the result.
#
# Slurm keeps many jobs under one name, so a name is no key (`once` is `none`): after a start whose reply was lost, the
# server searches, here by name. The folder of jobs must be one that the nodes see too.

answer() { # ID MEMBER JSON: one line, and no other writes meanwhile
    { flock 9 && jq -cn --argjson id "$1" --argjson it "$3" "{jsonrpc: \"2.0\", id: \$id, $2: \$it}"; } 9<"${BASH_SOURCE[0]}"
}
result() { answer "$id" result "$1"; }
failure() { # KIND MESSAGE
    answer "$id" error "$(jq -cn --arg kind "$1" --arg said "${2:0:1000}" '{code: -32000, message: $said, data: {kind: $kind}}')"
}
param() { jq -r "$1" <<<"$params"; }

start() {
    local key script folder said
    key=$(param .key) script=$scripts/$(param '.target.script | split("/") | last') folder=$jobs/$(param .key)
    [[ -x $script ]] || { failure rejected "there is no script $script" && return; }
    mkdir -p "$folder" && param .arguments >"$folder/arguments.json" || { failure unavailable "cannot write $folder" && return; }
    if said=$(sbatch --parsable --job-name="$key" --output="$folder/log" --export=ALL 2>&1 <<<"#!/bin/bash
cd '$folder'
'$script' '$folder/arguments.json' >out
echo \$? >end.new && mv end.new end"); then
        result "$(jq -cn --arg handle "${said%%;*}.$key" '{handle: $handle}')"
    elif [[ $said == *"Unable to contact"* || $said == *"timed out"* ]]; then
        failure uncertain "$said"
    else
        failure rejected "$said"
    fi
}

find_job() {
    local key said
    key=$(param .key)
    said=$(squeue --noheader --states=all --name="$key" --format=%A 2>&1) || { failure unavailable "$said" && return; }
    result "$(jq -cn --arg id "${said%%$'\n'*}" --arg key "$key" 'if $id == "" then null else {handle: "\($id).\($key)"} end')"
}

observe_all() {
    local handles names said handle state seen=()
    mapfile -t handles < <(param '.jobs[].handle')
    names=$(IFS=, && echo "${handles[*]#*.}")
    said=$(squeue --noheader --states=all --name="${names:-no}" --format='%A.%j %T' 2>&1) || { failure unavailable "$said"; return; }
    for handle in "${handles[@]}"; do
        state=$(sed -n "s/^$handle //p" <<<"$said")
        seen+=("$(observe "$jobs/${handle#*.}" "$state")")
    done
    result "[$(IFS=, && echo "${seen[*]}")]"
}

observe() { # FOLDER, STATE OF SLURM
    local code
    code=$(cat "$1/end" 2>/dev/null)
    if [[ $code == 0 ]]; then
        head -c 500000 "$1/out" | jq -cRs '{state: {succeeded: {content: [{type: "text", text: .}]}}}'
    elif [[ -e $1/cancel && (-n $code || ! $2 =~ ^(PENDING|RUNNING|COMPLETING)$) ]]; then
        # Also a job that was stopped before its shell began, which Slurm may call failed.
        echo '{"state": {"cancelled": {}}}'
    elif [[ -n $code || $2 =~ ^(FAILED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|BOOT_FAIL|DEADLINE|PREEMPTED)$ ]]; then
        tail -c 10000 "$1/log" | jq -cRs --arg why "${code:+exit code $code}" --arg state "$2" \
            '{state: {failed: {content: [{type: "text", text: .}]}}, message: (if $why == "" then "Slurm: \($state)" else $why end)}'
    else
        case $2 in
            PENDING | CONFIGURING | REQUEUED | SUSPENDED) echo '{"state": "queued"}' ;;
            CANCELLED) echo '{"state": {"cancelled": {}}}' ;;
            '') echo '{"state": "gone"}' ;;
            *) echo '{"state": "running"}' ;;
        esac
    fi
}

cancel() {
    local handle said
    handle=$(param .handle)
    [[ -d $jobs/${handle#*.} && ! -e $jobs/${handle#*.}/end ]] || { result null && return; }
    # First, so that however the job ends, it counts as cancelled.
    touch "$jobs/${handle#*.}/cancel"
    said=$(scancel "${handle%%.*}" 2>&1) || [[ $said == *"nvalid job id"* ]] || { failure unavailable "$said" && return; }
    result null
}

while IFS= read -r line; do
    { read -r id && read -r method && read -r params; } < <(jq -c '.id, .method, .params' <<<"$line")
    case $method in
        '"initialize"')
            scripts=$(param .config.scripts) jobs=$(param .config.jobs)
            result '{"protocol": 1, "once": "none", "abilities": []}' ;;
        '"start"') start </dev/null & ;;
        '"find"') find_job </dev/null & ;;
        '"observe_all"') observe_all </dev/null & ;;
        '"cancel"') cancel </dev/null & ;;
        '"shutdown"') result null && exit ;;
        *) answer "$id" error '{"code": -32601, "message": "unknown method"}' ;;
    esac
done
