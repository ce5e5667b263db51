#!/bin/bash
#SBATCH --time=00:10:00
#SBATCH --mem-per-cpu=100M
# Computes the mass of one molecule of an array: `bash masses.sh H2O`. It could be any batch script of the lab.
set -euo pipefail
molecule=${1:?which molecule, such as H2O}

declare -A mass=([H]=1.008 [C]=12.011 [N]=14.007 [O]=15.999 [F]=18.998 [P]=30.974 [S]=32.06 [Cl]=35.45)
terms=0 rest=$molecule
while [[ -n $rest ]]; do
    [[ $rest =~ ^([A-Z][a-z]?)([0-9]*) ]] || { echo "$molecule: $rest is no element" >&2; exit 2; }
    element=${BASH_REMATCH[1]} count=${BASH_REMATCH[2]:-1}
    [[ -v mass[$element] ]] || { echo "$molecule: there is no mass for $element" >&2; exit 2; }
    terms+=" + $count * ${mass[$element]}"
    rest=${rest#"${BASH_REMATCH[0]}"}
done
awk "BEGIN { printf \"%s,%.3f\n\", \"$molecule\", $terms }" | tee "$molecule.csv"
