# A cluster whose login node is reached over ssh. Sourced by release/clean-engines.

try_slurm() {
    local page=adapters/slurm/README.md word told folder option key
    coproc ENGINE { exec python3 -B tests/slurm/serve.py --accounting; }
    read -r word told <&"${ENGINE[0]}"
    [[ $word == ready ]] || fail "the cluster did not start: $told"
    folder=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["folder"])' "$told")
    # The login node, whose users have a folder in common with the newcomer's machine.
    for key in host user; do ssh-keygen -q -t ed25519 -N '' -f "$work/$key"; done
    cat >"$work/sshd" <<CONFIG
ListenAddress 127.0.0.1:22
HostKey $work/host
AuthorizedKeysFile $work/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
SetEnv SLURM_CONF=$folder/slurm.conf
CONFIG
    mkdir -p /run/sshd "$SHARED/dock" "$SHARED/ssh"
    /usr/sbin/sshd -D -e -f "$work/sshd" 2>"$work/sshd.log" &
    cp "$work/user" "$SHARED/ssh/id_ed25519"
    printf 'Host login1\n    HostName 127.0.0.1\n    User root\n' >"$SHARED/ssh/config"
    for option in 'ControlMaster auto' 'ControlPath ~/.ssh/%C' 'ControlPersist 10m'; do
        book "$page" "$option"
        printf '    %s\n' "$line" >>"$SHARED/ssh/config"
    done
    printf '127.0.0.1 %s\n' "$(<"$work/host.pub")" >"$SHARED/ssh/known_hosts"
    printf '#!/bin/sh\n#SBATCH --time=00:05:00\necho "docked on $(uname -n)"\n' >"$SHARED/dock/dock.sh"
    begin "$page" openssh-client
    steps+=("keys|cp -r $SHARED/ssh ~/.ssh")
    take ssh "$page" 'ssh -o BatchMode=yes bridge@login1 sinfo' bridge@ ''
    take init "$page" 'taskbridge init --engine slurm --jobs-dir /home/lab/.taskbridge --script /home/lab/dock/dock.sh --ssh bridge@login1' \
        /home/lab "$SHARED" bridge@ ''
    newcomer slurm "$page" 'taskbridge call run_script'
    stop_engine
}
