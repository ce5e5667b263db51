#!/bin/bash
#SBATCH --time=00:10:00
#SBATCH --mem-per-cpu=100M
# Integrates a pendulum, and reports progress in the job's comment. It leaves a table, and its result as JSON.
set -euo pipefail
angle=${1:?the angle in degrees}
parts=5

echo 'seconds,angle' >swing.csv
for ((part = 1; part <= parts; part++)); do
    awk -v angle="$angle" -v part="$part" 'BEGIN {
        a = angle * atan2(0, -1) / 180; v = 0; dt = 0.001
        for (t = 0; t < part; t += dt) { v -= 9.81 * sin(a) * dt; a += v * dt }
        printf "%d,%.4f\n", part, a * 180 / atan2(0, -1)
    }' >>swing.csv
    scontrol update jobid="$SLURM_JOB_ID" comment="progress=$part/$parts"
    sleep "${PAUSE:-0.2}"
done
printf '{"start": %s, "end": %s}\n' "$angle" "$(tail -n 1 swing.csv | cut -d , -f 2)" >result.json
echo "the pendulum swung for $parts seconds"
