#!/bin/bash
# Written by taskbridge: runs the script of the job's folder once, and records how it ended.
folder=@FOLDER@
shared=@SHARED@
run=${SLURM_ARRAY_TASK_ID:-job}.@RESTART@
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
if ! mkdir "$folder/ran/$run" 2>/dev/null; then
    if [ -d "$folder/ran/$run" ]; then
        : >"$folder/ran/$run/again"
        echo "taskbridge: Slurm started this job again, but its script may start only once" >&2
        exit 97
    fi
    echo "taskbridge: $folder/ran cannot be written on this node" >&2
    exit 98
fi
# The adapter sets these variables for Slurm's commands only.
unset LC_ALL SLURM_TIME_FORMAT SLURM_BITSTR_LEN SUDO_COMMAND SUDO_USER SUDO_UID SUDO_GID
began=$(date +%s)
script= told= early=
pass_on() {
    case $1 in TERM | INT | HUP) told=$1 ;; esac
    if [ -n "$script" ]; then kill -s "$1" "$script" 2>/dev/null; else early="$early $1"; fi
}
for signal in @SIGNALS@; do
    trap "pass_on $signal" "$signal"
done
code=98
TASKBRIDGE_TASK=:
if [ -n "@ELEMENTS@" ]; then
    # Without its line, the arguments of the script are unknown.
    TASKBRIDGE_TASK=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$folder/tasks") || TASKBRIDGE_TASK=
fi
if [ -n "$TASKBRIDGE_TASK" ]; then
    # The shell prints a message about a script that a signal killed. It must not appear in the script's log.
    exec {stderr}>&2 2>/dev/null
    # The variables of the config are for the script only, and may have the names of variables of this wrapper. Once
    # they are read, only names that no config can set are used.
    (
        # The shell lets background commands ignore these two signals.
        trap - INT QUIT
        . "$folder/parameters" || exit 98
        eval "$TASKBRIDGE_TASK"
        exec @FOLDER@/script "$@"
    ) <&0 2>&"$stderr" {stderr}>&- &
    script=$!
    for signal in $early; do
        kill -s "$signal" "$script" 2>/dev/null
    done
    # A signal interrupts `wait` before the script has ended.
    wait "$script"
    code=$?
    while kill -0 "$script" 2>/dev/null; do
        wait "$script"
        code=$?
    done
    # If it ended in between, the shell still has its status.
    wait "$script" 2>/dev/null
    late=$?
    [ "$late" -ne 127 ] && code=$late
    exec 2>&"$stderr"
fi
[ -n "$shared" ] && chmod -R g+rwX "$folder/work" 2>/dev/null
marker=$folder/ends/.$run.$$
{
    printf 'code=%s\ntold=%s\nbegan=%s\nended=%s\nnode=%s\njob=%s\n' \
        "$code" "$told" "$began" "$(date +%s)" "${SLURMD_NODENAME:-}" "${SLURM_JOB_ID:-}"
    # The last line has the times of the shell's children. In a pipe, they would be those of a subshell.
    times
} >"$marker" && mv -f "$marker" "$folder/ends/$run"
exit "$code"
