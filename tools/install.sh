#!/usr/bin/env bash
# Installs what is missing of the packages that the named needs bring (see packages.txt).
# Says nothing and touches nothing when all are there.
set -eu
cd "$(dirname "$0")"

wanted=$(for need in "$@"; do sed -n "s/^$need: *//p" packages.txt; done | tr ' ' '\n' | sort -u)
missing=
for package in $wanted; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
{
    $as_root apt-get -q update
    # Packaged servers must not start: the benchmarks run their own, on their own ports.
    RUNLEVEL=1 $as_root apt-get -q install -y --no-install-recommends $missing
} >&2
