# What the walk-throughs share. examples/*/run source it, after they have set HERE to their folder, and call `walk "$@"`.
# It must not know an engine.
# shellcheck shell=bash

readonly TARGET="${CARGO_TARGET_DIR:-$PWD/target}"
readonly TASKBRIDGE="$TARGET/debug/taskbridge"

say() { printf '\n==== %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

work=$(mktemp -d)
server=
export XDG_STATE_HOME=$work/state

# Stops taskbridge with a signal, TERM or KILL.
stop_taskbridge() {
    [[ -n $server ]] || return 0
    kill "-$1" "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

# An engine is a coprocess ENGINE that prints `ready ..`, and stops when its input closes.
clean_up() {
    stop_taskbridge TERM
    if [[ -n ${ENGINE_PID:-} ]]; then
        local pid=$ENGINE_PID
        eval "exec ${ENGINE[1]}>&-"
        wait "$pid" || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT

# Leaves what an engine prints after `ready` in $ready.
wait_for_engine() {
    local word
    read -r word ready <&"${ENGINE[0]}"
    [[ $word == ready ]] || fail "the engine did not start: $ready"
}

# Repeats a command until it succeeds, for at most a minute.
until_it() {
    local tries
    for ((tries = 0; tries < 240; tries++)); do
        "$@" && return
        sleep 0.25
    done
    fail "timeout waiting for: $*"
}

# Prints the usage for any option but --stay, and builds taskbridge.
walk() {
    case ${1:-} in
        '' | --stay) ;;
        *)
            sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
            [[ $1 == --help ]] && exit
            exit 2
            ;;
    esac
    [[ -n ${TASKBRIDGE_BUILT:-} ]] || cargo build --quiet
}

# Leaves all running until Enter, with --stay; the rest is a call to try.
stay() {
    if [[ $1 == --stay ]]; then
        say "Still running. Try: TASKBRIDGE_URL=$TASKBRIDGE_URL $TASKBRIDGE call ${*:2}"
        read -r -p 'Press Enter to stop. '
    fi
    say "Done"
}

# Makes the config of this walk-through: the example's, changed by sed.
make_config() { sed "$@" "$HERE/taskbridge.toml" >"$work/taskbridge.toml"; }

doctor() {
    printf '$ taskbridge doctor\n'
    "$TASKBRIDGE" doctor --config "$work/taskbridge.toml"
}

it_listens() { url=$(grep -o -m 1 'http://127.0.0.1:[0-9]*/mcp' "$work/stdout") && url=${url%%$'\n'*}; }

start_taskbridge() {
    : >"$work/stdout"
    "$TASKBRIDGE" serve --config "$work/taskbridge.toml" --listen 127.0.0.1:0 >"$work/stdout" 2>>"$work/stderr" &
    server=$!
    until_it it_listens
    export TASKBRIDGE_URL=$url
    printf 'taskbridge listens at %s\n' "$url"
}

# Calls a tool as a user at a terminal does, and checks that the output contains these words.
call() {
    local words=$1 code=0
    shift
    printf '$ taskbridge call %s\n' "$*"
    said=$("$TASKBRIDGE" call "$@" 2>&1) || code=$?
    printf '%s\n' "$said"
    [[ $said == *"$words"* ]] || fail "missing in the output: $words"
    ((code == ${expected:-0})) || fail "unexpected exit code: $code"
}

# Sends a request of 2026-07-28 with curl: method, value of the Mcp-Name header, members of the parameters.
mcp() {
    curl -fsS "$TASKBRIDGE_URL" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
        -H 'MCP-Protocol-Version: 2026-07-28' -H "Mcp-Method: $1" -H "Mcp-Name: $2" -d '{"jsonrpc":"2.0","id":1,
            "method":"'"$1"'","params":{'"$3"',"_meta":{
                "io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{
                    "elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}'
    echo
}

# Starts a task with curl.
begin() {
    printf '$ curl ... tools/call %s %s\n' "$1" "$2"
    said=$(mcp tools/call "$1" '"name":"'"$1"'","arguments":'"$2")
    printf '%s\n' "$said"
    task=$(sed -n 's/.*"taskId":"\([a-z2-7]*\)".*/\1/p' <<<"$said")
    [[ -n $task ]] || fail "the response contains no task"
}

get_task() { said=$(mcp tasks/get "$task" '"taskId":"'"$task"'"'); }

it_asks() {
    get_task
    question=$(sed -n 's/.*"inputRequests":{"\([^"]*\)".*/\1/p' <<<"$said")
    [[ -n $question ]]
}

# Answers the question of the task.
answer() {
    until_it it_asks
    printf '$ curl ... tasks/get\n%s\n' "$said"
    printf '$ curl ... tasks/update %s\n' "$1"
    mcp tasks/update "$task" '"taskId":"'"$task"'","inputResponses":{"'"$question"'":'"$1"'}'
}
