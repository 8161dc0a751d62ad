#!/usr/bin/env bash
# Runs one fuzz target for so many seconds, from its corpus and from what earlier runs found.
#
#   tools/fuzz.sh build/fuzz/json_fuzz 10
#
# The output goes to build/fuzz/new/NAME.log; its end is shown if the target finds something.
set -u
target=$1 seconds=$2
name=$(basename "$target" _fuzz)
new=$(dirname "$target")/new
mkdir -p "$new/$name"
"$target" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$new/$name-" \
    "$new/$name" "fuzz/corpus/$name" > "$new/$name.log" 2>&1
status=$?
if [ $status != 0 ]; then
    echo "== $name: FAILED with $status"
    tail -n 60 "$new/$name.log"
    exit 1
fi
echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$new/$name.log") inputs"
