#!/usr/bin/env bash
# Every test of one build: unit, model and corpora, then end to end.  The second part runs even if
# the first has failed.  The last line counts them all.
set -u
cd "$(dirname "$0")/.."
build=${1:-debug}
out=build/$build

# Results of an earlier run must not be counted.
rm -f "$out/meson-logs/testlog.json" "$out"/e2e*.xml

make --no-print-directory BUILD="$build" unit
unit=$?
# The second -q drops pytest's own count, so that the only one at the end is ours.
make --no-print-directory BUILD="$build" e2e ARGS="-q ${ARGS:-}"
e2e=$?
exec /usr/bin/python3 tools/tally.py "$out" "$unit" "$e2e"
